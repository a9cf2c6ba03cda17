r"""llama-server logs as records, whatever the log went through on its way.

    [prefix] minutes.seconds.ms.µs LEVEL body

`1.53.597.137 I` is 113.597137 s after the logger's start (common/log.cpp: "[M.s.ms.us]"), never
hours. The body of a slot's line is `slot func: id N | task N | message`. Colours, CRLF, container
prefixes, broken UTF-8, several records on one line and lines that continue a record (also those
of old builds, which print no time) are undone here; what they say is read in `tasks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown

_STAMP = re.compile(r"(?<![\d.])(\d+)\.(\d{2})\.(\d{3})\.(\d{3})\s+([DIWE])\s")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
_PREFIX = re.compile(r".{0,100}(?:\||\]|:|INFO|DEBUG|WARN(?:ING)?|ERROR|[\w.-]+-\d+)\s*")
_UNTIMED = re.compile(r"(?:[\w.-]+\s+\|\s+)?((?:slot|srv)\s+[^\s:|]+\s*:.*)")
_BODY = re.compile(r"(slot|srv|cmn|spec)\s+([^\s:|]+)\s*:\s(.*)")
_SLOT = re.compile(r"id\s+(-?\d+)\s\|\stask\s+(-?\d+)\s\|\s?(.*)")
_MOST_CONTINUED = 4000


@dataclass(frozen=True)
class Record:
    """One statement of the log; None is not stated.

    `line` counts from 1 in the file; `cut` marks the last one of a file without a line end, which
    may have lost its tail.
    """

    line: int
    time_s: float | None
    level: str
    source: str
    function: str
    slot: int | None
    task: int | None
    message: str
    cut: bool = False


def read_log(path: Path) -> Iterator[Record]:
    """The records of a log file, in order, in constant memory.

    Raises KeyelabError for a missing file.
    """
    if not path.is_file():
        raise KeyelabError(
            f"expected a llama-server log at {shown(path)}, found none",
            "set perf_analysis.log, or run 06_serve first",
        )
    with path.open("rb") as stream:
        yield from parse(line.decode("utf-8", errors="replace") for line in stream)


def parse(lines: Iterable[str]) -> Iterator[Record]:
    """Records of log lines (line ends kept, so that a cut last line is seen)."""
    waiting: Record | None = None
    for number, raw in enumerate(lines, 1):
        whole = raw.endswith(("\n", "\r"))
        text = _ANSI.sub("", raw).rstrip("\r\n")
        stamps = list(_STAMP.finditer(text))
        if stamps:
            head = text[: stamps[0].start()]
            if waiting and head.strip() and not _PREFIX.fullmatch(head):
                waiting = _continued(waiting, head)
            ends = [stamp.start() for stamp in stamps[1:]] + [len(text)]
            for stamp, end in zip(stamps, ends, strict=True):
                if waiting:
                    yield waiting
                waiting = _record(number, stamp, text[stamp.end() : end])
        elif untimed := _UNTIMED.fullmatch(text):
            if waiting:
                yield waiting
            waiting = _record(number, None, untimed[1])
        elif waiting and text.strip():
            waiting = _continued(waiting, text)
        if waiting and not whole:
            waiting = replace(waiting, cut=True)
    if waiting:
        yield waiting


def _record(line: int, stamp: re.Match[str] | None, text: str) -> Record:
    text = " ".join(text.split())
    time_s = None
    if stamp:
        minutes, seconds, thousandths, millionths = (int(stamp[n]) for n in range(1, 5))
        time_s = minutes * 60 + seconds + thousandths / 1e3 + millionths / 1e6
    body = _BODY.fullmatch(text + " " if text.endswith(":") else text)
    source, function, message = body.groups() if body else ("", "", text)
    tagged = _SLOT.fullmatch(message) if source == "slot" else None
    return Record(
        line=line,
        time_s=time_s,
        level=stamp[5] if stamp else "",
        source=source,
        function=function,
        slot=int(tagged[1]) if tagged else None,
        task=int(tagged[2]) if tagged else None,
        message=tagged[3] if tagged else message,
    )


def _continued(record: Record, text: str) -> Record:
    if len(record.message) > _MOST_CONTINUED:
        return record
    return replace(record, message=" ".join(f"{record.message} {text}".split()))
