"""How far a build is, read from what ninja or make prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NINJA = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
_MAKE = re.compile(r"^\[ *(\d+)%\] (.*)")
_OBJECT = re.compile(r"^(Building|Linking) .+? (?:object|executable|library|module) (\S+)")


@dataclass(frozen=True)
class Step:
    """A line of progress: share done (0 to 1) and what is being made."""

    fraction: float
    text: str


def parse(line: str) -> Step | None:
    """The step that a line of output tells, or None when it tells none."""
    if found := _NINJA.match(line):
        done, total = int(found.group(1)), int(found.group(2))
        return Step(done / total if total else 1.0, f"{done} of {total}: {_short(found.group(3))}")
    if found := _MAKE.match(line):
        return Step(int(found.group(1)) / 100, _short(found.group(2)))
    return None


def _short(what: str) -> str:
    if found := _OBJECT.match(what):
        verb = "compiling" if found.group(1) == "Building" else "linking"
        return f"{verb} {found.group(2).rsplit('/', 1)[-1].removesuffix('.o')}"
    return what
