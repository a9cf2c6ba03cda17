"""The recipe that a host can take: the strongest that its card, the tree and the gate allow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.facts import ProbeFacts
from keyelab.files import read_json
from keyelab.patching.plan import DoesNotFit, Plan, make_plan
from keyelab.patching.recipe import Recipe, load_recipe

DEFAULT = "k100ai"
Objection = Literal["", "card", "not probed", "tree", "gate"]


@dataclass(frozen=True)
class Candidate:
    """A recipe on this host: what speaks against it ('' nothing), and that in words."""

    name: str
    recipe: Recipe
    plan: Plan | None
    objection: Objection = ""
    because: str = ""


@dataclass(frozen=True)
class Choice:
    """The recipe taken for the one that was asked for, and what was looked at, strongest first."""

    asked: str
    taken: Candidate
    looked_at: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        """The name of the recipe taken."""
        return self.taken.name

    @property
    def recipe(self) -> Recipe:
        """The recipe taken."""
        return self.taken.recipe

    def rows(self) -> list[dict[str, str]]:
        """One row a candidate."""
        return [
            {
                "recipe": one.name,
                "verdict": "taken" if one is self.taken else "passed over",
                "because": one.because,
            }
            for one in self.looked_at
        ]


def choose(
    name: str, probe: ProbeFacts | None, tree: Path | None = None, gates: Path | None = None
) -> Choice:
    """The recipe `name`, or for one with `choose` the first of those that nothing speaks against.

    `gates` holds the results of earlier kernel gates, <digest of the patched tree>.json. Without
    a tree only the card is asked. An unknown need is not enough to be chosen, and no reason to
    stop a recipe that is named; one that is known to be missing is.

    Raises KeyelabError when the card lacks what the named recipe needs, or when none fits.
    """
    names = load_recipe(name).choose
    if not names:
        named = _look(name, probe, tree, gates)
        if named.objection == "card":
            raise KeyelabError(f"recipe {name}: {named.because}", _instead(probe, tree, gates))
        return Choice(name, named, (named,))
    looked_at: list[Candidate] = []
    for one in names:
        looked_at.append(_look(one, probe, tree, gates))
        if not looked_at[-1].objection:
            return Choice(name, looked_at[-1], tuple(looked_at))
    raise KeyelabError(
        f"recipe {name}: expected one of {', '.join(names)} to fit, found none: "
        + "; ".join(f"{one.name}: {one.because}" for one in looked_at),
        f"name one to try it all the same: --set source_patch.recipe={names[-1]}",
    )


def choice_checks(choice: Choice, backend: str) -> list[Check]:
    """Whether the choice rests on what was seen; a build for no HIP card needs nothing of one."""
    doubts = [
        one
        for one in choice.looked_at
        if one.objection in ("tree", "gate") or (one.objection == "not probed" and backend == "hip")
    ]
    unknown = any(one.objection == "not probed" for one in doubts)
    return [
        check(
            "recipe",
            None if unknown else not doubts,
            expected=f"{choice.asked} without a doubt",
            found="; ".join([choice.name, *(f"{one.name}: {one.because}" for one in doubts)]),
            remedy="ask the card: keyelab probe, then keyelab run --from env_check"
            if unknown
            else "see the kernel gate of 05_build, and patches/README.md",
            warn=True,
        )
    ]


def _look(name: str, probe: ProbeFacts | None, tree: Path | None, gates: Path | None) -> Candidate:
    recipe = load_recipe(name)
    plan = make_plan(tree, recipe.rules) if tree else None
    found = {need: getattr(probe, need) if probe else None for need in recipe.needs}
    false = ", ".join(need for need, value in found.items() if value is False)
    unknown = ", ".join(need for need, value in found.items() if value is None)
    misfit = _misfit(plan)
    objection: Objection = ""
    because = f"seen on the card: {', '.join(found)}" if found else "needs nothing of the card"
    if false:
        objection, because = "card", f"needs {false}, which the probe found false"
    elif unknown:
        objection, because = "not probed", f"needs {unknown}, which no probe has shown"
    elif misfit:
        objection, because = "tree", misfit
    elif failing := _failed_gate(plan, gates):
        objection, because = "gate", f"its kernel gate failed on this host: {failing}"
    return Candidate(name, recipe, plan, objection, because)


def _misfit(plan: Plan | None) -> str:
    try:
        if plan:
            plan.require()
    except DoesNotFit as error:
        return error.message
    return ""


def _failed_gate(plan: Plan | None, gates: Path | None) -> str:
    """The operations that failed in an earlier kernel gate of the planned tree, '' when none."""
    if not plan or not gates or not any(gates.glob("*.json")):
        return ""  # without looking: the digest of a whole tree takes a while
    try:
        result = read_json(gates / f"{plan.tree_sha256()}.json")
    except KeyelabError:
        return ""
    if not isinstance(result, dict) or result.get("passed") is not False:
        return ""
    return ", ".join(map(str, result.get("failing") or ["operations not named"]))


def _instead(probe: ProbeFacts | None, tree: Path | None, gates: Path | None) -> str:
    try:
        return f"take the recipe {choose(DEFAULT, probe, tree, gates).name}"
    except KeyelabError:
        return "see what the card can do: keyelab probe"
