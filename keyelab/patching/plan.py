"""A plan: what a series of rules would do to a tree. Reading only; nothing is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from keyelab.errors import KeyelabError
from keyelab.facts import PatchFact
from keyelab.files import sha256_tree, shown
from keyelab.patching.edit import attempt, nearest
from keyelab.patching.rule import Rule

State = Literal["to apply", "applied", "not needed", "not applicable"]


class DoesNotFit(KeyelabError):
    """A rule does not fit the tree; nothing has been written."""


@dataclass(frozen=True)
class Outcome:
    """One rule on the tree: its state, its places (file, line from 1), diff, and misfit."""

    rule: Rule
    state: State
    places: tuple[tuple[str, int], ...] = ()
    diff: str = ""
    problem: str = ""

    def row(self) -> dict[str, str]:
        """The outcome as a row of a table."""
        where = ", ".join(f"{Path(file).name}:{line}" for file, line in self.places)
        return {
            "rule": self.rule.id,
            "state": self.state,
            "places": str(len(self.places)),
            "where": self.problem or where,
        }

    def fact(self) -> PatchFact:
        """The outcome for the record."""
        files = sorted({file for file, _ in self.places})
        return PatchFact(
            id=self.rule.id, title=self.rule.title, files=files, replacements=len(self.places)
        )


@dataclass(frozen=True)
class Plan:
    """The outcomes of all rules and the contents that the changed files would get."""

    tree: Path
    outcomes: tuple[Outcome, ...]
    after: Mapping[str, bytes] = field(repr=False)

    def tree_sha256(self) -> str:
        """The digest that the tree must have once the plan is applied."""
        return sha256_tree(self.tree, replaced=self.after)

    def require(self) -> Plan:
        """This plan, if every rule fits; else DoesNotFit with rule, file and counts."""
        wrong = [outcome for outcome in self.outcomes if outcome.problem]
        if wrong:
            others = f" (and {len(wrong) - 1} more rules)" if len(wrong) > 1 else ""
            raise DoesNotFit(
                f"rule {wrong[0].rule.id}: {wrong[0].problem}{others}; nothing was changed",
                "pick a tree or a recipe that fit together: see patches/README.md",
            )
        return self


def make_plan(tree: Path, rules: Sequence[Rule]) -> Plan:
    """Try every rule on the tree, each on what the ones before it would leave."""
    before: dict[str, str] = {}
    now: dict[str, str] = {}
    outcomes = []
    for rule in rules:
        try:
            for file in rule.applies_to:
                if file not in now:
                    before[file] = now[file] = _text(tree, file)
            outcome, new = _try(rule, now)
            now.update(new)
        except DoesNotFit as error:
            outcome = Outcome(rule, "not applicable", problem=error.message)
        outcomes.append(outcome)
    changed = {file: text.encode() for file, text in now.items() if text != before[file]}
    return Plan(tree, tuple(outcomes), changed)


def _text(tree: Path, file: str) -> str:
    try:
        return (tree / file).read_bytes().decode()
    except FileNotFoundError:
        raise DoesNotFit(f"expected the file {file} in {shown(tree)}, found none") from None
    except UnicodeDecodeError as error:
        raise DoesNotFit(
            f"expected UTF-8 text in {file}, found byte {error.object[error.start]:#04x} "
            f"at {error.start}"
        ) from None


def _try(rule: Rule, texts: Mapping[str, str]) -> tuple[Outcome, dict[str, str]]:
    new = {file: texts[file] for file in rule.applies_to}
    places: list[tuple[str, int]] = []
    finished = 0
    for number, edit in enumerate(rule.edits, 1):
        file = rule.file_of(edit)
        found = attempt(edit, new[file])
        if edit.expect.holds(len(found.lines)):
            places += [(file, line) for line in found.lines]
            new[file] = found.text
        elif found.is_done:
            finished += 1
        else:
            close = nearest(edit, new[file])
            raise DoesNotFit(
                f"edit {number} of {len(rule.edits)} in {file}: expected {edit.expect} "
                f"place{'s' if edit.expect.max > 1 else ''}, found {len(found.lines)}"
                + (f"; nearest is {close}" if close else "")
            )
    if finished and places:
        raise DoesNotFit(
            f"{finished} of its {len(rule.edits)} edits are already in {', '.join(new)}, "
            "the others are not: the tree was edited by hand"
        )
    if not places:
        return Outcome(rule, "applied" if finished else "not needed"), {}
    diff = "".join(unified(file, texts[file], new[file]) for file in new)
    return Outcome(rule, "to apply", tuple(sorted(places)), diff), new


def unified(file: str, old: str, new: str) -> str:
    """A unified diff of one file, three lines of context; '' when nothing changed."""
    made = difflib.unified_diff(_lines(old), _lines(new), f"a/{file}", f"b/{file}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made
    )


def _lines(text: str) -> list[str]:
    # only LF ends a line in a diff; str.splitlines knows more ends
    return re.findall(r"[^\n]*\n|[^\n]+", text)
