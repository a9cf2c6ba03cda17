"""Reading logs: each candidate line goes to the first entry that it matches."""

from __future__ import annotations

import copy
import io
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO

from keyelab.diagnose.entry import Entry, catalogue
from keyelab.diagnose.finding import Finding, Line
from keyelab.diagnose.line import clean
from keyelab.diagnose.report import Report, ranked
from keyelab.diagnose.scan import Place, Scan
from keyelab.errors import KeyelabError
from keyelab.files import shown

Source = Path | IO[bytes] | bytes | str
From = tuple[Path, int]  # a file and the byte to begin at

# What tells most of a failure that nobody has listed: an error with its text, an exception.
_WORDS = ("error", "fatal", "exception", "traceback", "assert", "panic", "failed")
_LEVEL = re.compile(rb"\d\.\d{3} (?:\x1b\[\d+m)*E ")  # of llama.cpp's log
_LEVELS = (*(f"{digit} e " for digit in range(10)), "31me ")
_TELLING = re.compile(
    r"(?:^|[\s\]):])(?:fatal |internal )?error\b ?(?::|\[)|^(?:[\w.]+\.)?\w*(?:Error|Exception)\b: "
    r"|\bFATAL\b|\bpanic(?:ked)?\b|assert(?:ion)?\b.* failed|^FAILED: |^E(?:RROR)?\b",
    re.IGNORECASE,
)
_TELLING_KEPT, _TELLING_FROM = 5, 20_000  # lines kept, and looked at: a flood teaches no more
_VALUES_KEPT, _VALUES_FROM = 5, 50
_ABOVE, _BELOW = 2, 3  # lines of context shown
_NOISE = re.compile(r"\[(?:New LWP|Thread debugging)")  # of the debugger that an abort calls
_NUMBER = re.compile(r"\d+")
_ENDED = "# exit status"  # written by shell.run


def diagnose(sources: Iterable[Source | From] | Source, phase: str | None = None) -> Report:
    """What went wrong in logs: files, open binary streams, or text itself (str, bytes).

    Sources are taken as one story in their order: a cause found in the first explains what follows
    in the second. A file in a list may stand with the byte to begin at, its lines are numbered from
    the file's start. `phase` leaves only the entries of one phase of the catalogue. Raises
    KeyelabError when a file cannot be read.
    """
    if isinstance(sources, (Path, bytes, str)) or hasattr(sources, "read"):
        sources = [sources]  # type: ignore[list-item]
    reader = _Reader(phase)
    for given in sources:
        start = given[1] if isinstance(given, tuple) else 0
        source = given[0] if isinstance(given, tuple) else given
        if isinstance(source, Path):
            try:
                with source.open("rb") as stream:
                    above = stream.read(start).count(b"\n") if start else 0
                    reader.read(stream, shown(source), above)
            except OSError as error:
                raise KeyelabError(
                    f"expected a log at {shown(source)}, found: {error.strerror}",
                    f"ls -l {shown(source.parent)}",
                ) from None
        elif isinstance(source, (str, bytes)):
            content = source.encode() if isinstance(source, str) else source
            reader.read(io.BytesIO(content), "text")
        else:
            reader.read(source, _name(source))
    return reader.report()


def _name(stream: IO[bytes]) -> str:
    name = getattr(stream, "name", "stream")
    return name.strip("<>") if isinstance(name, str) else "stream"


@lru_cache(maxsize=1)
def _entries_of() -> dict[str, list[int]]:
    """For each text the indexes of its entries; words that only tell have none."""
    found: dict[str, list[int]] = {word: [] for word in (*_WORDS, *_LEVELS)}
    for index, entry in enumerate(catalogue().entries):
        for text in entry.texts:
            found.setdefault(text, []).append(index)
    return found


@lru_cache(maxsize=1)
def _scan() -> Scan:
    return Scan(_entries_of(), catalogue().common)


def _with_reason(text: str, below: list[str]) -> str:
    if not text.startswith("CMake Error"):
        return text
    reason = itertools.takewhile(lambda line: line.startswith("  ") or not line, below[:8])
    return " ".join([text, *" ".join(reason).split()])


def _tells(text: str) -> bool:
    return bool(_TELLING.search(text)) and not any(
        harmless in text for harmless in catalogue().harmless
    )


@dataclass
class _Reader:
    phase: str | None
    findings: dict[str, Finding] = field(default_factory=dict)
    telling: dict[str, Line] = field(default_factory=dict)
    looked_at: int = 0
    last: list[Line] = field(default_factory=list)
    lines: int = 0
    sources: list[str] = field(default_factory=list)

    def read(self, stream: IO[bytes], name: str, above: int = 0) -> None:
        scan = copy.copy(_scan())  # its count of lines is of one log
        same = sum(source.split(" (")[0] == name for source in self.sources)
        name = f"{name} ({same + 1})" if same else name
        self.sources.append(name)
        for place in scan.places(stream, above):
            self._take(place, name)
        end = [clean(raw).strip() for raw in scan.tail.splitlines()]
        if end := [text for text in end if text and not text.startswith(_ENDED)]:
            self.last = [Line(name, 0, text) for text in end[-3:]]
        self.lines += scan.lines - above

    def report(self) -> Report:
        causes, echoes = ranked(list(self.findings.values()))
        return Report(
            causes=causes,
            echoes=echoes,
            telling=list(self.telling.values()),
            last=self.last,
            lines=self.lines,
            sources=self.sources,
        )

    def _take(self, place: Place, name: str) -> None:
        known = {index for text in place.texts for index in _entries_of()[text]}
        tells = len(self.telling) < _TELLING_KEPT and self.looked_at < _TELLING_FROM
        if not known and not tells:
            return
        text = clean(place.raw)
        for index in sorted(known):
            entry = catalogue().entries[index]
            if self.phase in (None, entry.phase) and (match := entry.matches(text)):
                self._note(entry, match, text, place, name)
                return
        self.looked_at += 1
        if tells and (_tells(text) or _LEVEL.search(place.raw)):
            self.telling.setdefault(_NUMBER.sub("0", text), Line(name, place.number, text))

    def _note(self, entry: Entry, match: re.Match[str], text: str, place: Place, name: str) -> None:
        found = self.findings.get(entry.id)
        if found is None:
            below = [line for line in map(clean, place.below) if not _NOISE.match(line)]
            above = [clean(raw) for raw in place.above[-_ABOVE:]]
            first = Line(name, place.number, _with_reason(text, below))
            found = Finding(entry, first, above, below[:_BELOW])
            self.findings[entry.id] = found
            around = "\n".join([text, *below])
            for pattern in entry.value_patterns:
                found.add(pattern.search(around), _VALUES_KEPT)
        found.count += 1
        if found.count <= _VALUES_FROM:
            found.add(match, _VALUES_KEPT)
