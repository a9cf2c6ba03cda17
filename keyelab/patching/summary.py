"""A series of rules, a plan and its effect, as tables and facts."""

from __future__ import annotations

from collections.abc import Sequence

from keyelab.checks import Check, check
from keyelab.facts import PatchFact, SourceFacts
from keyelab.files import shown
from keyelab.patching.apply import Applied, reverted_copy
from keyelab.patching.plan import Plan
from keyelab.patching.recipe import Series
from keyelab.patching.rule import Rule
from keyelab.patching.source import Source


def reasons(rules: Sequence[Rule]) -> list[dict[str, str]]:
    """Why each rule exists, as rows of a table."""
    return [
        {
            "rule": rule.id,
            "symptom": rule.why.symptom,
            "cause": rule.why.cause,
            "the article's form": rule.why.article,
        }
        for rule in rules
    ]


def about(series: Series) -> str:
    """The recipe in markdown: what it is, for which weights, and how the server is started."""
    recipe = series.recipe
    if recipe is None:
        return "No recipe: the tree is built as it is."
    return (
        f"Recipe **{series.name}**: {recipe.title}. {recipe.why.strip()}\n\n"
        f"Weights: {', '.join(recipe.weights)}. Flash attention: {recipe.flash_attention}. "
        f"Most threads a block: {recipe.block_limit}."
    )


def states(plan: Plan | None) -> list[dict[str, str]]:
    """Each rule on this tree: to apply, applied, not needed or not applicable, and where."""
    rows = []
    for outcome in plan.outcomes if plan else ():
        places = [f"{match.file.rsplit('/', 1)[-1]}:{match.line}" for match in outcome.matches]
        rows.append(
            {
                "rule": outcome.rule.id,
                "state": outcome.state,
                "places": str(len(places)),
                "where": outcome.problem or ", ".join(places),
            }
        )
    return rows


def digest_checks(source: Source, plan: Plan, applied: Applied) -> list[Check]:
    """The patched tree is the planned one, and the way back is byte-identical."""
    expected = plan.tree_sha256()
    back = (
        reverted_copy(applied.tree, source.tree, sorted(plan.after))
        if plan.after
        else applied.sha256
    )
    return [
        check(
            "tree is the planned one",
            applied.sha256 == expected,
            expected=expected[:16],
            found=applied.sha256[:16],
            remedy=f"rm -r {shown(applied.tree)}, then run this phase again",
        ),
        check(
            "revert is byte-identical",
            back == source.sha256,
            expected=source.sha256[:16],
            found=back[:16],
            remedy="start again from the pristine tree",
        ),
    ]


def facts(source: Source, series: Series, plan: Plan, applied: Applied) -> SourceFacts:
    """The tree for 05_build, by digest before and after."""
    return SourceFacts(
        tree=shown(applied.tree),
        origin=source.origin,
        version=source.version,
        recipe=series.name,
        base_sha256=source.sha256,
        tree_sha256=applied.sha256,
        patches=[
            PatchFact(
                id=outcome.rule.id,
                title=outcome.rule.title,
                files=outcome.files,
                replacements=len(outcome.matches),
            )
            for outcome in plan.outcomes
            if outcome.state != "not needed"
        ],
    )
