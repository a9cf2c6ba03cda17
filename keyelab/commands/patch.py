"""keyelab patch: a recipe on a llama.cpp tree of one's own, in place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyelab.errors import UsageError
from keyelab.files import shown, write_text

if TYPE_CHECKING:
    from keyelab.patching.choice import Choice
    from keyelab.patching.plan import Plan

DEFAULT = "k100ai"
PROBE = "keyelab.probe"


@click.group()
def patch() -> None:
    """Plan, apply, verify or take back a recipe on a llama.cpp tree, in place.

    04_source_patch does the same on a copy. What is needed for the way back is kept in
    TREE/.keyelab. Exit codes: 0 ok, 1 failed or does not fit, 2 usage.

    \b
    --json prints one object; schema is 1, tree a path, *_sha256 a digest or null,
    chosen [{recipe, verdict, because}], cmake {name: value}, files sorted paths:
      plan    schema tree recipe chosen fits problem status cmake files
              rules: [{rule, state, places: [{file, line}], reason, problem}]
      apply   schema tree recipe chosen already base_sha256 tree_sha256 cmake files
      verify  schema tree recipe chosen outcome
              checks: [{name, status, expected, found, remedy}]
      revert  schema tree recipe already base_sha256 tree_sha256 identical files
    """


def _llama_cpp(context: click.Context, parameter: click.Parameter, tree: Path) -> Path:
    if not (tree / "ggml" / "CMakeLists.txt").is_file():
        raise UsageError(
            f"expected a llama.cpp tree (ggml/CMakeLists.txt) at {shown(tree)}, found "
            + ("another folder" if tree.is_dir() else "no folder"),
            "name the folder that holds ggml/, src/ and tools/",
        )
    return tree


def _read_probe(context: click.Context, parameter: click.Parameter, log: Path | None) -> None:
    from keyelab.host.card import read

    if log is not None:
        try:
            text = log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(
                f"expected the transcript of a probe at {shown(log)}, found: {error.strerror}",
                "make one on the host with the card: keyelab probe --log FILE",
            ) from None
        context.meta[PROBE] = read(text).facts


def _command(function: Callable[..., None]) -> click.Command:
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)
    function = click.option("--recipe", help="Series in patches/recipes.yaml.")(function)
    path = click.Path(path_type=Path)
    function = click.option(
        "--probe",
        type=path,
        callback=_read_probe,
        expose_value=False,
        help="Transcript of `keyelab probe`, for a recipe that needs to know the card.",
    )(function)
    function = click.argument("tree", type=path, callback=_llama_cpp)(function)
    return patch.command()(function)


@_command
@click.option("--diff", type=click.Path(path_type=Path), help="Also write a unified diff.")
@click.option("--mbox", type=click.Path(path_type=Path), help="Also write patches for git am.")
def plan(
    tree: Path, recipe: str | None, as_json: bool, diff: Path | None, mbox: Path | None
) -> None:
    """Show what a recipe would do; writes nothing in TREE."""
    from keyelab.patching.plan import DoesNotFit
    from keyelab.patching.state import status, whole_diff

    choice, made = _planned(tree, recipe)
    problem = ""
    try:
        made.require()
    except DoesNotFit as error:
        problem = error.message
    if diff and not problem:
        before = {file: (tree / file).read_bytes() for file in made.after}
        write_text(diff, whole_diff(before, made.after))
    if mbox and not problem:
        from keyelab.patching.mailbox import mailbox

        write_text(mbox, mailbox(made))
    content = {
        **_head(tree, choice),
        "fits": not problem,
        "problem": problem,
        "status": status(tree).kind,
        "cmake": choice.recipe.cmake,
        "files": sorted(made.after),
        "rules": [
            {
                "rule": one.rule.id,
                "state": one.state,
                "places": [{"file": file, "line": line} for file, line in one.places],
                "reason": one.reason,
                "problem": one.problem,
            }
            for one in made.outcomes
        ],
    }
    rows = [outcome.row() for outcome in made.outcomes]
    wide = max((len(row["rule"]) for row in rows), default=0)
    lines = [
        f"{row['rule']:{wide}}  {row['state']:14}  {row['places']:>3}  {row['where']}"
        for row in rows
    ]
    verdict = f"does not fit: {problem}" if problem else f"fits: {len(made.after)} files to change"
    _say(as_json, content, [*_heading(choice), *lines, verdict])
    sys.exit(1 if problem else 0)


@_command
def apply(tree: Path, recipe: str | None, as_json: bool) -> None:
    """Apply a recipe in TREE: all of it or nothing; again does nothing and says so."""
    from keyelab.patching import inplace

    choice, made = _planned(tree, recipe)
    done = inplace.apply(made, choice.name)
    content = {**_head(tree, choice), **_result(done), "cmake": choice.recipe.cmake}
    said = (
        f"nothing to change: {shown(tree)} is as {choice.name} leaves it"
        if done.already
        else f"applied {choice.name} to {shown(tree)}: {len(done.files)} files; "
        f"back with: keyelab patch revert {shown(tree)}"
    )
    _say(as_json, content, [*_heading(choice), said, f"tree {done.tree_sha256}"])


@_command
def verify(tree: Path, recipe: str | None, as_json: bool) -> None:
    """Check what must hold in a patched TREE; the recipe is the one applied, if none is named."""
    from keyelab.checks import check, worst
    from keyelab.patching.state import status
    from keyelab.patching.verify import verify as verify_tree

    now = status(tree)
    choice, _ = _planned(tree, recipe or (now.patch.recipe if now.patch else None))
    checks = verify_tree(tree, choice.recipe.rules, choice.recipe.block_limit)
    if now.patch:
        found = f"edited since: {', '.join(now.edited)}" if now.edited else now.kind
        left = check(
            f"files are as {now.patch.recipe} left them",
            now.kind == "patched",
            expected="patched",
            found=found,
            remedy="undo those edits" if now.edited else f"keyelab patch apply {shown(tree)}",
        )
        checks = [left, *checks]
    outcome = worst(checks)
    content = {
        **_head(tree, choice),
        "outcome": outcome,
        "checks": [item.model_dump() for item in checks],
    }
    lines = []
    for item in checks:
        lines.append(f"{item.status:7} {item.name}: {item.found}")
        if item.remedy:
            lines.append(f"        expected {item.expected}; {item.remedy}")
    _say(as_json, content, [*_heading(choice), *lines, outcome])
    sys.exit(1 if outcome == "failed" else 0)


@_command
def revert(tree: Path, recipe: str | None, as_json: bool) -> None:
    """Put the originals back in TREE, byte for byte; refuses where they were edited since."""
    from keyelab.patching import inplace
    from keyelab.patching.state import status

    now = status(tree)
    if recipe and now.kind == "patched" and now.patch and recipe != now.patch.recipe:
        raise UsageError(
            f"expected recipe {recipe} in {shown(tree)}, found {now.patch.recipe}",
            f"keyelab patch revert {shown(tree)}",
        )
    done = inplace.revert(tree)
    identical = None if done.already else done.tree_sha256 == done.base_sha256
    content = {"schema": 1, "tree": shown(tree), "recipe": done.recipe, "identical": identical}
    others = "" if identical else "; other files of the tree have changed since and stay so"
    said = (
        f"nothing to take back in {shown(tree)}"
        if done.already
        else f"took {done.recipe} out of {shown(tree)}: {len(done.files)} files as before{others}"
    )
    _say(as_json, {**content, **_result(done)}, [said, f"tree {done.tree_sha256}"])


def _planned(tree: Path, recipe: str | None) -> tuple[Choice, Plan]:
    from keyelab.patching.choice import choose
    from keyelab.patching.plan import make_plan

    probe = click.get_current_context().meta.get(PROBE)
    choice = choose(recipe or DEFAULT, probe, tree)
    return choice, choice.taken.plan or make_plan(tree, choice.recipe.rules)


def _head(tree: Path, choice: Choice) -> dict[str, Any]:
    return {"schema": 1, "tree": shown(tree), "recipe": choice.name, "chosen": choice.rows()}


def _result(done: Any) -> dict[str, Any]:
    names = ("recipe", "already", "base_sha256", "tree_sha256")
    return {**{name: getattr(done, name) for name in names}, "files": sorted(done.files)}


def _heading(choice: Choice) -> list[str]:
    cmake = [f"build with: -D{name}={value}" for name, value in choice.recipe.cmake.items()]
    rows = choice.rows() if choice.asked != choice.name or choice.taken.objection else []
    why = [f"  {row['recipe']}: {row['verdict']}: {row['because']}" for row in rows]
    return [f"recipe {choice.name}: {choice.recipe.title}", *why, *cmake]


def _say(as_json: bool, content: dict[str, Any], lines: list[str]) -> None:
    click.echo(json.dumps(content, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))
