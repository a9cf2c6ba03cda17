"""Runs whose process is gone: found, and sealed with what they left."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from keyelab.errors import KeyelabError
from keyelab.files import project_root, shown
from keyelab.record import hold, seal
from keyelab.record import run as records
from keyelab.record.execute import left_by
from keyelab.record.run import Run

ELSEWHERE_S = 3600.0
_KERNEL_S = 20.0  # a kernel looks once a second whether its run is still there
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")  # of files.write_bytes

State = Literal["goes on", "elsewhere", "gone", "ended"]
_WHY = {
    "gone": "its process is gone",
    "elsewhere": "begun on another machine, or before this one was started anew",
}


def state(folder: Path, run: Run) -> State:
    """Whether a run goes on, ended by itself, or lost its process.

    `elsewhere`: it was begun on another machine, or before this one was started anew, and wrote
    within the last hour.
    """
    if hold.is_held(folder):
        return "goes on"
    if (folder / seal.SUMS).exists():
        return "ended"
    if run.boot != records.boot() and time.time() - _last_write(folder) < ELSEWHERE_S:
        return "elsewhere"
    return "gone"


def runs(target: str) -> Iterator[tuple[Path, Run]]:
    """The runs of a target that can be read, newest first; dry ones left out."""
    for path in sorted((project_root() / "records" / target).glob("2*Z-*/run.json"), reverse=True):
        try:
            run = records.load(path.parent)
        except (KeyelabError, OSError):
            continue
        if not run.dry_run:
            yield path.parent, run


def unsealed(target: str) -> Iterator[tuple[Path, Run, str]]:
    """The runs of a target that do not go on here and that nobody has closed, and why."""
    for folder, run in runs(target):
        if why := _WHY.get(state(folder, run)):
            yield folder, run, why


def resumable(target: str) -> Path:
    """The newest run of a target that did not end well; raises KeyelabError when there is none.

    Not one before a run that ended well, and not one that another has gone on from.
    """
    every = list(runs(target))
    taken = {run.resumes for _, run in every}
    found = "none"
    hint = f"keyelab run --target {target}"
    for folder, run in every:
        now = state(folder, run)
        if now == "goes on":
            pids = " ".join(map(str, hold.holders(folder))) or str(run.pid)
            found, hint = f"{shown(folder)}, which goes on (pid {pids})", "wait for its end"
        elif now == "elsewhere":
            found = f"{shown(folder)}: {_WHY[now]}"
            hint = f"when nothing writes it any more: keyelab run --resume {shown(folder)}"
        elif now == "ended" and run.status in ("passed", "warned"):
            break
        elif run.run_id not in taken:
            return folder
    raise KeyelabError(f"expected a run of {target} that did not end well, found {found}", hint)


def settle(run: Run, folder: Path) -> None:
    """Complete a run that was broken off: phases that were going on are what they left."""
    for entry in run.phases:
        if entry.started and entry.status == "not run":
            left_by(entry.phase, folder).note(entry)
        elif entry.status == "not run":
            entry.reason = entry.reason or "the run was interrupted"


def close(folder: Path, growing: Callable[[], Iterable[Path]] = tuple) -> Run:
    """Seal a run whose process is gone: interrupted, and ended with its last write.

    `growing` gives the logs that its servers still write. Raises Held when the run goes on.
    """
    with hold.held(folder, wait_s=_KERNEL_S):
        run = records.load(folder)
        if (folder / seal.SUMS).exists():
            return run
        ended = _last_write(folder)
        for left in folder.rglob(".*"):
            if left.is_file() and _TEMPORARY.fullmatch(left.name):
                left.unlink()
        settle(run, folder)
        if run.status == "running":
            run.status = "interrupted"
            run.finished = datetime.fromtimestamp(ended, timezone.utc).strftime(records.TIME)
            began = datetime.strptime(run.started, records.TIME).replace(tzinfo=timezone.utc)
            run.duration_s = round(max(0.0, ended - began.timestamp()), 1)
        run.closed = records.now()
        try:
            seal.seal(run, folder, growing())
        except OSError as error:
            raise records.unwritten(folder, error, "the run was not closed") from None
    return run


def _last_write(folder: Path) -> float:
    return max((path.stat().st_mtime for path in seal.listed(folder).values()), default=0.0)
