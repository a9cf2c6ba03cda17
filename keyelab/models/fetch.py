"""Bring the missing files in with the hub's own client, and prove that they came whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from keyelab import shell
from keyelab.errors import CommandFailed, KeyelabError
from keyelab.files import shown
from keyelab.models import hub, leftovers, sums
from keyelab.models.leftovers import amount
from keyelab.models.plan import Plan, space_check

OnProgress = Callable[[float | None, str], None]
_LOOK_EVERY_S = 1.0
_LOG_TAIL = 4000


def obtain(plan: Plan, env: Mapping[str, str], log: Path, on_progress: OnProgress) -> None:
    """Download what is missing; a second call does nothing.

    A download that stops leaves only files under the client's temporary names. Raises
    KeyelabError for no space, no network, or a file that is unfinished or of another size.
    """
    if not plan.missing:
        on_progress(1.0, "both files are there")
        return
    space = space_check(plan)
    if space.status == "failed":
        raise KeyelabError(f"expected {space.expected}, found {space.found}", space.remedy)
    plan.folder.mkdir(parents=True, exist_ok=True)
    quiet = {**env, "TQDM_MININTERVAL": "5"}
    start = log.stat().st_size if log.exists() else 0
    try:
        shell.run(plan.command, env=quiet, log=log, on_line=_watch(plan, on_progress))
    except CommandFailed as error:
        with log.open("rb") as stream:
            said = stream.read()[start:][-_LOG_TAIL:].decode("utf-8", errors="replace")
        repo = plan.origin.removeprefix(f"{plan.source} ")
        reason = hub.unreachable(plan.source, repo, error.message, said)
        raise KeyelabError(f"{reason.message}; log: {shown(log)}", reason.hint) from None
    for name in plan.names:
        _require_delivered(plan.folder / name, plan.listed.get(name))
    leftovers.refuse(plan.folder, plan.names)
    digests = {name: item.sha256 for name, item in plan.listed.items() if item.sha256}
    if digests:
        sums.add(plan.folder, digests)


def _watch(plan: Plan, on_progress: OnProgress) -> Callable[[str], None]:
    before = _disk_bytes(plan.folder)
    looked = 0.0

    def on_line(line: str) -> None:
        nonlocal looked
        if time.monotonic() - looked < _LOOK_EVERY_S:
            return
        looked = time.monotonic()
        done = max(0, _disk_bytes(plan.folder) - before)
        share = min(done / plan.need_bytes, 1.0) if plan.need_bytes else None
        on_progress(share, f"{amount(done)} of {amount(plan.need_bytes)}")

    return on_line


def _disk_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            # a client may reserve the whole length first: count what is written
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


def _require_delivered(path: Path, listed: hub.Listed | None) -> None:
    if not path.is_file():
        raise KeyelabError(
            f"expected {path.name} in {shown(path.parent)} after the download, found none",
            f"see what the client did: ls -la {shown(path.parent)}",
        )
    size = path.stat().st_size
    if listed and listed.size_bytes is not None and size != listed.size_bytes:
        raise KeyelabError(
            f"expected {listed.size_bytes} bytes in {shown(path)}, found {size}",
            f"remove it and run this phase again: rm {shown(path)}",
        )
