"""What an exam found: right answers of those asked for, by what was asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_MOST_WRONG = 200


@dataclass
class Tally:
    """Right answers, answers asked for, and the first wrong ones with what was expected."""

    right: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, truth: str, answer: str, right: bool | None = None) -> None:
        """Count an answer; it is right when it is the truth, unless `right` says it."""
        good = answer == truth if right is None else right
        self.asked[name] += 1
        self.right[name] += good
        if not good and len(self.wrong) < _MOST_WRONG:
            self.wrong.append({"asked": name, "expected": truth, "answer": answer})

    def rows(self) -> list[dict[str, Any]]:
        """The counts as table rows, in the order in which they were first asked."""
        return [
            {
                "asked": name,
                "right": self.right[name],
                "of": count,
                "share": round(self.right[name] / count, 4),
            }
            for name, count in self.asked.items()
        ]

    def table(self) -> str:
        """The rows as a markdown table."""
        lines = ["| asked | right | of | share |", "|---|---:|---:|---:|"]
        lines += [
            f"| {row['asked']} | {row['right']} | {row['of']} | {row['share']:.1%} |"
            for row in self.rows()
        ]
        return "\n".join(lines)
