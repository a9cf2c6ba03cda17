"""What was found in logs: causes in order, what only follows from them, and the unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from keyelab.diagnose.finding import Finding, Line, quoted


@dataclass(frozen=True)
class Report:
    """The diagnosis of one or more logs.

    `causes` are errors, then warnings, each in the order of the logs; `echoes` follow from them.
    `telling` are error lines that nobody has listed, `last` the last lines of the last log.
    """

    causes: list[Finding]
    echoes: list[Finding]
    telling: list[Line]
    last: list[Line]
    lines: int
    sources: list[str]

    @property
    def cause(self) -> Finding | None:
        """The first known cause of a failure; None where none is known."""
        return self.causes[0] if self.known else None

    @property
    def failed(self) -> bool:
        """Whether something failed, known or not; warnings are no failure."""
        return bool(self.known or self.telling or self.echoes)

    @property
    def known(self) -> bool:
        """Whether a cause of a failure was found; errors stand before warnings."""
        return bool(self.causes) and self.causes[0].entry.severity == "error"

    @property
    def line(self) -> Line | None:
        """The one line to quote: the first cause's, else the most telling, else the last."""
        unlisted = [*self.telling, *self.unlisted(), *self.last[-1:]]
        return self.cause.line if self.cause else next(iter(unlisted), None)

    @property
    def sentence(self) -> str:
        """The first cause with its line, else the line to quote."""
        if self.line is None:
            return "its log is empty"
        text = quoted(self.line.text.strip())
        return f"{self.cause.title} ({self.line}: {text})" if self.cause else text

    @property
    def hint(self) -> str:
        """The first step against the cause, or where it is not known a symptom; '' without."""
        steps = [found.remedy[0] for found in ([self.cause] if self.cause else self.echoes)]
        return next(iter(steps), "").removeprefix("$ ")

    def unlisted(self) -> list[Line]:
        """Telling lines that no entry explains: those before the first known error, or all."""
        lines = [*self.telling, *([] if self.known else [found.line for found in self.echoes])]
        lines.sort(key=self._place)
        end = self._place(self.causes[0].line) if self.known else (len(self.sources), 0)
        return [line for line in lines if self._place(line) < end]

    def rows(self) -> list[dict[str, str]]:
        """A row a cause, for a table: where, what, why, what to do (markdown)."""
        return [
            {
                "where": f"{found.line}" + (f", {found.count} lines" if found.count > 1 else ""),
                "what": found.title,
                "cause": found.cause,
                "remedy": "; ".join(found.steps),
            }
            for found in self.causes
        ]

    def as_json(self) -> dict[str, Any]:
        """The report as plain values; `schema` is 1."""
        return {
            "schema": 1,
            "failed": self.failed,
            "known": self.known,
            "lines": self.lines,
            "sources": self.sources,
            "causes": [found.as_json() for found in self.causes],
            "echoes": [
                {"id": found.entry.id, "line": found.line.number, "count": found.count}
                for found in self.echoes
            ],
            "telling": [
                {"source": line.source, "line": line.number, "text": quoted(line.text)}
                for line in self.unlisted()
            ],
        }

    def __str__(self) -> str:
        unlisted = self.unlisted()
        parts = [_section(found) for found in self.causes]
        if self.known and unlisted:
            parts.append("Before it stand errors that are not in the catalogue:")
            parts.append(_listed(unlisted))
        elif self.failed and not self.known:
            head = "**The cause is not known.** The most telling lines:"
            steps = [f"- {found.title}: {'; '.join(found.steps)}" for found in self.echoes]
            advice = ["\n".join(steps)] if steps else []
            parts = [head, _listed(unlisted or self.last), *advice, *parts]
        elif not self.causes:
            parts.append(f"Nothing known to be wrong in {self.lines} lines.")
        if self.known and self.echoes:
            seen = ", ".join(f"{found.title} ({found.line})" for found in self.echoes)
            parts.append(f"What follows from it: {seen}.")
        return "\n\n".join(parts)

    def _place(self, line: Line) -> tuple[int, int]:
        return self.sources.index(line.source), line.number


def ranked(findings: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Causes (errors, then warnings, in the order they were met) and echoes.

    A symptom is an echo; so is what a cause explains, unless it came before it in the same log.
    """
    order = [found for found in findings if found.entry.severity != "symptom"]
    order.sort(key=lambda found: found.entry.severity)  # error before warning; the sort is stable
    echoes = [found for found in findings if found.entry.severity == "symptom"]
    echoes += [found for found in order if any(_explains(other, found) for other in order)]
    return [found for found in order if found not in echoes], echoes


def _explains(cause: Finding, found: Finding) -> bool:
    earlier = cause.line.source != found.line.source or cause.line.number <= found.line.number
    return found.entry.id in cause.entry.explains and earlier


def _section(found: Finding) -> str:
    more = f", {found.count} lines like it" if found.count > 1 else ""
    head = f"**{found.title}** ({found.entry.severity}, {found.line}{more})"
    steps = "\n".join(f"- {text}" for text in found.steps)
    return f"{head}\n\n{found.cause}\n\n{_fenced(found.context())}\n\n{steps}"


def _listed(lines: list[Line]) -> str:
    return _fenced("\n".join(f"{line}  {quoted(line.text)}" for line in lines))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text}\n{fence}"
