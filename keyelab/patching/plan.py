"""A plan: what a series of rules would do to a tree. Reading only; nothing is written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from keyelab.errors import KeyelabError
from keyelab.files import sha256_json, sha256_tree, shown
from keyelab.patching.edit import attempt, lines_of, nearest
from keyelab.patching.rule import Rule

State = Literal["to apply", "applied", "not needed", "not applicable"]


class DoesNotFit(KeyelabError):
    """A rule does not fit the tree; nothing has been written."""


@dataclass(frozen=True)
class Match:
    """A place that a rule changes: file relative to the tree, line from 1."""

    file: str
    line: int


@dataclass(frozen=True)
class Outcome:
    """One rule on the tree: its state, places, unified diff, and what is wrong if it is not fit."""

    rule: Rule
    state: State
    matches: tuple[Match, ...] = ()
    diff: str = ""
    problem: str = ""

    @property
    def files(self) -> list[str]:
        """The files that the rule changes."""
        return sorted({match.file for match in self.matches})


@dataclass(frozen=True)
class Plan:
    """The outcomes of all rules and the contents that the changed files would get."""

    tree: Path
    outcomes: tuple[Outcome, ...]
    before: Mapping[str, bytes] = field(repr=False)
    after: Mapping[str, bytes] = field(repr=False)

    @property
    def diff(self) -> str:
        """One unified diff of the whole plan, as `git apply` and `patch -p1` read it."""
        pairs = [(f, _text(self.before[f]), _text(self.after[f])) for f in sorted(self.after)]
        return "".join(unified(file, old, new) for file, old, new in pairs)

    @property
    def digest(self) -> str:
        """SHA-256 of what the plan writes."""
        return sha256_json({file: _text(content) for file, content in self.after.items()})

    def tree_sha256(self) -> str:
        """The digest that the tree must have once the plan is applied."""
        return sha256_tree(self.tree, replaced=self.after)

    def require(self) -> Plan:
        """This plan, if every rule fits; else DoesNotFit with rule, file and counts."""
        wrong = [outcome for outcome in self.outcomes if outcome.state == "not applicable"]
        if wrong:
            others = f" (and {len(wrong) - 1} more rules)" if len(wrong) > 1 else ""
            raise DoesNotFit(
                f"rule {wrong[0].rule.id}: {wrong[0].problem}{others}; nothing was changed",
                "pick a tree or a recipe that fit together: see the table in patches/README.md",
            )
        return self


def make_plan(tree: Path, rules: Sequence[Rule]) -> Plan:
    """Try every rule on the tree, each on what the ones before it would leave."""
    before: dict[str, bytes] = {}
    now: dict[str, str] = {}
    outcomes = []
    for rule in rules:
        missing = [file for file in rule.applies_to if not (tree / file).is_file()]
        if missing:
            problem = f"expected the file {missing[0]} in {shown(tree)}, found none"
            outcomes.append(Outcome(rule, "not applicable", problem=problem))
            continue
        for file in rule.applies_to:
            if file not in now:
                before[file] = (tree / file).read_bytes()
                now[file] = _decoded(before[file], file)
        outcome, texts = _try(rule, {file: now[file] for file in rule.applies_to})
        outcomes.append(outcome)
        now.update(texts)
    after = {file: text.encode() for file, text in now.items() if text.encode() != before[file]}
    return Plan(tree, tuple(outcomes), {file: before[file] for file in after}, after)


def _try(rule: Rule, texts: dict[str, str]) -> tuple[Outcome, dict[str, str]]:
    new = dict(texts)
    matches: list[Match] = []
    finished = 0
    for number, edit in enumerate(rule.edits, 1):
        file = rule.file_of(edit)
        found = attempt(edit, new[file])
        if edit.expect.holds(len(found.lines)):
            matches += [Match(file, line) for line in found.lines]
            new[file] = found.text
        elif found.is_done:
            finished += 1
        else:
            close = nearest(edit, new[file])
            problem = (
                f"edit {number} of {len(rule.edits)} in {file}: expected {edit.expect} "
                f"{_places(edit.expect.max)}, found {len(found.lines)}"
                + (f"; nearest is {close}" if close else "")
            )
            return Outcome(rule, "not applicable", problem=problem), texts
    if finished and matches:
        problem = (
            f"{finished} of its {len(rule.edits)} edits are already in {', '.join(rule.applies_to)}"
            ", the others are not: the tree was edited by hand"
        )
        return Outcome(rule, "not applicable", problem=problem), texts
    if not matches:
        return Outcome(rule, "applied" if finished else "not needed"), texts
    diff = "".join(unified(f, texts[f], new[f]) for f in rule.applies_to if texts[f] != new[f])
    matches.sort(key=lambda match: (match.file, match.line))
    return Outcome(rule, "to apply", tuple(matches), diff), new


def unified(file: str, old: str, new: str) -> str:
    """A unified diff of one file, three lines of context."""
    made = difflib.unified_diff(lines_of(old), lines_of(new), f"a/{file}", f"b/{file}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made
    )


def _places(count: int) -> str:
    return "place" if count == 1 else "places"


def _text(content: bytes) -> str:
    return content.decode()


def _decoded(content: bytes, file: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DoesNotFit(
            f"expected UTF-8 text in {file}, found byte {content[error.start]:#04x} "
            f"at {error.start}; nothing was changed"
        ) from None
