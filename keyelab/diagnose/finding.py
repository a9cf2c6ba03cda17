"""An entry of the catalogue that was met in a log, with the line and the values seen."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import Any

from keyelab.diagnose.entry import Entry
from keyelab.errors import KeyelabError
from keyelab.files import project_root, redact

_WIDTH = 240  # letters of a quoted line
_BRACED = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Line:
    """A line of a log: which one, its number from 1 (0 unknown), its text as a program wrote it."""

    source: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.source}:{self.number}" if self.number else self.source


@dataclass
class Finding:
    """An entry that matched: its first line with context, how often, and the values seen."""

    entry: Entry
    line: Line
    above: list[str]
    below: list[str]
    count: int = 0
    values: dict[str, list[str]] = field(default_factory=dict)

    def add(self, match: re.Match[str] | None, most: int) -> None:
        """Keep the named groups of a match, at most `most` different values each."""
        for name, value in (match.groupdict() if match else {}).items():
            known = self.values.setdefault(name, [])
            value = short(value) if name == "kernel" and value else value
            if value and value not in known and len(known) < most:
                known.append(value)

    @property
    def title(self) -> str:
        """One sentence with the values that were seen."""
        return self._filled(self.entry.title)

    @property
    def cause(self) -> str:
        """Why it happens."""
        return self._filled(self.entry.cause)

    @property
    def remedy(self) -> list[str]:
        """What to do, in order; what starts with "$ " is a command, "   # " begins its comment."""
        return [self._filled(step) for step in self.entry.remedy]

    @property
    def steps(self) -> list[str]:
        """`remedy` as markdown."""
        return [_step(text) for text in self.remedy]

    def context(self) -> str:
        """The line, marked, with those around it."""
        above, below = [[f"  {text}" for text in side] for side in (self.above, self.below)]
        lines = [*above, f"> {self.line.text}", *below]
        return "\n".join(quoted(line) for line in lines if line.strip())

    def as_json(self) -> dict[str, Any]:
        """The finding as plain values."""
        return {
            "id": self.entry.id,
            "phase": self.entry.phase,
            "severity": self.entry.severity,
            "title": self.title,
            "cause": self.cause,
            "remedy": self.remedy,
            "source": self.line.source,
            "line": self.line.number,
            "text": quoted(self.line.text),
            "context": self.context(),
            "count": self.count,
            "values": {name: list(map(quoted, seen)) for name, seen in self.values.items()},
            "sources": self.entry.sources,
        }

    def _filled(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in self.entry.names:
                return found[0]
            return quoted(", ".join(self.values.get(found[1], []))) or "…"

        return _BRACED.sub(value, text)


def quoted(text: str) -> str:
    """A text fit to be shown: no secrets, no path of the checkout, at most 240 letters."""
    with contextlib.suppress(KeyelabError):
        text = text.replace(f"{project_root()}/", "")
    text = redact(text)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + " …"


def short(symbol: str) -> str:
    """The bare name of a kernel: of a mangled symbol, or of one with types and arguments."""
    rest, name = re.sub(r"^_Z(?:N[KVr]*)?", "", symbol), ""
    while symbol.startswith("_Z") and (length := re.match(r"L?(\d{1,3})(?!\d)", rest)):
        end = length.end() + int(length[1])
        name, rest = rest[length.end() : end], rest[end:]
    return name or re.sub(r"^(?:void )?([\w:]+).*", r"\1", symbol)


def _step(text: str) -> str:
    command, _, comment = text.partition("   # ")
    shown = f"`{command[2:]}`" if command.startswith("$ ") else command
    return f"{shown} ({comment})" if comment else shown
