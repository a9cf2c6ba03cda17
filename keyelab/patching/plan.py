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
from keyelab.patching.after import look
from keyelab.patching.byhand import marks
from keyelab.patching.edit import attempt, nearest
from keyelab.patching.rule import Edit, Rule
from keyelab.patching.texts import Texts

State = Literal["to apply", "applied", "not needed", "not applicable"]


class DoesNotFit(KeyelabError):
    """A rule does not fit the tree; nothing has been written."""


@dataclass(frozen=True)
class Outcome:
    """One rule on the tree: its state, its places (file, line from 1), diff, and what stops it.

    `reason` says why the tree does not need the rule.
    """

    rule: Rule
    state: State
    places: tuple[tuple[str, int], ...] = ()
    diff: str = ""
    problem: str = ""
    reason: str = ""

    def row(self) -> dict[str, str]:
        """The outcome as a row of a table."""
        where = ", ".join(f"{Path(file).name}:{line}" for file, line in self.places)
        return {
            "rule": self.rule.id,
            "state": self.state,
            "places": str(len(self.places)),
            "where": self.problem or self.reason or where,
        }

    def fact(self) -> PatchFact:
        """The outcome for the record."""
        files = sorted({file for file, _ in self.places})
        return PatchFact(
            id=self.rule.id,
            title=self.rule.title,
            files=files,
            replacements=len(self.places),
            verify=self.rule.verify,
        )


@dataclass(frozen=True)
class Plan:
    """The outcomes of all rules and the contents that the changed files would get.

    `by_hand` are the marks of the published edits, where someone made them before.
    """

    tree: Path
    outcomes: tuple[Outcome, ...]
    after: Mapping[str, bytes] = field(repr=False)
    by_hand: tuple[str, ...] = ()
    _digest: list[str] = field(default_factory=list, repr=False, compare=False)

    def tree_sha256(self) -> str:
        """The digest that the tree must have once the plan is applied."""
        if not self._digest:
            self._digest.append(sha256_tree(self.tree, replaced=self.after))
        return self._digest[0]

    def require(self) -> Plan:
        """This plan, if every rule fits; else DoesNotFit with rule, file and counts."""
        if self.by_hand:
            raise DoesNotFit(
                f"the article's edits are in {'; '.join(self.by_hand)}; nothing was changed",
                "start from a pristine tree: obtain it again, or "
                f"git -C {shown(self.tree)} checkout -- ggml/src/ggml-cuda",
            )
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
    texts = Texts(tree)
    outcomes = []
    for rule in rules:
        try:
            outcomes.append(_try(rule, texts))
        except KeyelabError as error:
            outcomes.append(Outcome(rule, "not applicable", problem=error.message))
    changed = {f: text.encode() for f, text in texts.now.items() if text != texts.before[f]}
    by_hand = tuple(marks(Texts(tree).get)) if rules else ()
    return Plan(tree, tuple(outcomes), changed, by_hand)


def _try(rule: Rule, texts: Texts) -> Outcome:
    if rule.still_needed and not texts.holds(rule.still_needed):
        return Outcome(rule, "not needed", reason=rule.still_needed.otherwise)
    new: dict[str, str] = {}
    places: list[tuple[str, int]] = []
    finished = 0
    for number, edit in enumerate(rule.edits, 1):
        file = rule.file_of(edit)
        if not texts.holds(edit.when, file):
            continue
        now = new.get(file, texts[file])
        found = attempt(edit, now)
        if edit.expect.holds(len(found.lines)):
            places += [(file, line) for line in found.lines]
            new[file] = found.text
        elif found.is_done:
            finished += 1
        else:
            where = f"edit {number} of {len(rule.edits)} in {file}"
            raise DoesNotFit(f"{where}: {_misfit(edit, found.lines, now)}")
    if finished and places:
        raise DoesNotFit(
            f"{finished} of its {len(rule.edits)} edits are already in {', '.join(new)}, "
            "the others are not: the tree was edited by hand"
        )
    old = {file: texts[file] for file in new}
    texts.now.update(new)
    try:
        _promises(rule, texts)
    except DoesNotFit:
        texts.now.update(old)
        raise
    if not places:
        return Outcome(rule, "applied" if finished else "not needed")
    diff = "".join(unified(file, old[file], new[file]) for file in new)
    return Outcome(rule, "to apply", tuple(sorted(places)), diff)


def _misfit(edit: Edit, lines: Sequence[int], text: str) -> str:
    count = f"expected {edit.expect} place{'s' if edit.expect.max > 1 else ''}, found {len(lines)}"
    if lines:
        return f"{count}: line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    close = nearest(edit, text)
    return f"{count}; nearest is {close}" if close else count


def _promises(rule: Rule, texts: Texts) -> None:
    """Stop where the edits would leave a post-condition unmet: the tree has a form unknown here."""
    for condition in rule.after:
        if not texts.holds(condition.when):
            continue
        verdict, found = look(condition, ((f, texts.get(f)) for f in texts.named(condition.file)))
        if not verdict:
            raise DoesNotFit(f"its edits would leave unmet {condition.name!r}: {found}")


def unified(file: str, old: str, new: str) -> str:
    """A unified diff of one file, three lines of context; '' when nothing changed."""
    made = difflib.unified_diff(_lines(old), _lines(new), f"a/{file}", f"b/{file}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made
    )


def _lines(text: str) -> list[str]:
    # only LF ends a line in a diff; str.splitlines knows more ends
    return re.findall(r"[^\n]*\n|[^\n]+", text)
