"""llama-server's log, of any build, verbosity and wrapping: one pass, constant memory.

`1.53.597.137 I` is 113.597137 s after the server's start (llama.cpp, common/log.cpp), never hours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.perf.blocks import BLOCK, NOT_SAID, blocks
from keyelab.perf.run import Run, Sink
from keyelab.perf.statement import BARE, DAMAGED, KINDS, SLOT, STAMPS, STATEMENT

ARTICLE_LOG = Path(__file__).parent / "data" / "article_server.log"

_BACK_S = 1.0  # a clock that jumps back further is another server's
_INDEX = STATEMENT.groupindex
_HEAD = tuple(_INDEX[name] for name in ("minute", "second", "us", "json_us", "source", "child"))
_SLOT, _TASK = _INDEX["slot"], _INDEX["task"]
Handler = Callable[[Run, "re.Match[bytes]", "float | None", int], None]


def read(stream: IO[bytes], sink: Sink, size: int = BLOCK) -> None:
    """Tell `sink` all that a log holds.

    A file may hold several runs of a server (a clock that jumps back, or a second beginning), and
    of several servers beside each other, where a container's name or a child's port tells them.
    """
    runs: dict[bytes, Run] = {}
    before = 0
    for block, last in blocks(stream, size):
        line, counted, end = before, 0, 0
        for found in STATEMENT.finditer(block):
            start, end = found.span()
            line += block.count(b"\n", counted, start + 1)
            counted = start + 1
            minute, second, us, json_us, source, child = found.group(*_HEAD)
            time_s: float | None = None
            if minute is not None:
                time_s = int(minute) * 60 + float(second) + int(us) / 1e6
            elif json_us:
                time_s = int(json_us) / 1e6
            name = (source or b"") + (child or b"") if source or child else b""
            kind: str = found.lastgroup  # type: ignore[assignment]
            run = runs.get(name)
            if (
                run is None
                or (kind in _STARTS and _again(run, kind, time_s))
                or (time_s is not None and run.last_s is not None and time_s < run.last_s - _BACK_S)
            ):
                if run:
                    run.close()
                told = name.replace(b"|", b" ").decode("utf-8", "replace")
                run = runs[name] = Run(sink, line, " ".join(told.split()))
            if time_s is not None:
                run.last_s = time_s
            _HANDLERS[kind](run, found, time_s, line)
        broken = block.rfind(b"\n")
        if last and broken >= end and block[broken:].strip():
            for run in [*runs.values()][-1:]:
                run.damage(before + block.count(b"\n"))
        before += block.count(b"\n") - 1
    for run in runs.values():
        run.close()


_STARTS = {"build", "loading"}


def _again(run: Run, kind: str, time_s: float | None) -> bool:
    """Whether a line of a server's start cannot be of this one's."""
    if kind == "build":
        return run.log.build is not None or run.log.loading_s is not None or run.worked
    return time_s is None and run.worked


def _handler(kind: str) -> Handler:
    """What a statement does; the numbers of a kind stand between the last named group and its own.

    Where a run sleeps and wakes again, the first stamp counts.
    """
    end = _INDEX[kind]
    groups = tuple(range(max(n for n in _INDEX.values() if n < end) + 1, end))
    method: Any = getattr(Run, kind, None)

    def values(found: re.Match[bytes]) -> tuple[bytes, ...]:
        return found.group(0, *groups)[1:]

    def of_task(run: Run, found: re.Match[bytes], time_s: float | None, line: int) -> None:
        slot, task = int(found[_SLOT]), int(found[_TASK])
        if task >= 0 or (task == NOT_SAID and run.runs(slot)):
            method(run, run.of(slot, task, time_s, line), values(found), time_s, line)

    def of_block(run: Run, found: re.Match[bytes], time_s: float | None, line: int) -> None:
        if run.last is not None:
            method(run, run.last, values(found), time_s, line)

    def of_server(run: Run, found: re.Match[bytes], time_s: float | None, line: int) -> None:
        method(run, values(found), time_s, line)

    def stamp(run: Run, found: re.Match[bytes], time_s: float | None, line: int) -> None:
        if getattr(run.log, f"{kind}_s") is None:
            setattr(run.log, f"{kind}_s", time_s)

    def damage(run: Run, found: re.Match[bytes], time_s: float | None, line: int) -> None:
        run.damage(line)

    if kind in DAMAGED:
        return damage
    if kind in STAMPS:
        return stamp
    if kind in BARE:
        return of_block
    return of_task if kind in SLOT and kind != "slot_context" else of_server


_HANDLERS = {kind: _handler(kind) for kind in KINDS}


def opened(path: Path) -> IO[bytes]:
    """The file, open for reading; raises KeyelabError when there is none."""
    if not path.is_file():
        raise KeyelabError(
            f"expected a llama-server log at {shown(path)}, found none",
            "set perf_analysis.log, or run 06_serve first",
        )
    return path.open("rb")


def not_a_log(path: Path) -> KeyelabError:
    """The error for a file that holds nothing of a server."""
    return KeyelabError(
        f"expected llama-server's lines in {shown(path)}, found none",
        "name the server's log (06_serve says where it is)",
    )
