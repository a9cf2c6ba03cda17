"""Every recipe on eight real trees: which rules apply, that they do, and the way back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from keyelab.files import project_root, sha256_tree
from keyelab.patching.after import post_conditions
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.plan import make_plan
from keyelab.patching.recipe import Recipe, load_recipe

README = project_root() / "patches" / "README.md"
TREES = ["py0.3.24", "py0.3.26", "py0.3.28", "py0.3.30", "b10019", "b10502", "b11010", "b11434"]
# how many places a rule changes in each tree; 0: the tree does not need it
PLACES = {
    "hip-version-gate": (1, 1, 1, 1, 1, 1, 1, 1),
    "mmf-off": (1, 1, 1, 1, 1, 1, 1, 1),
    "norm-256": (9, 9, 9, 9, 9, 9, 9, 9),
    "rms-norm-256": (9, 9, 9, 9, 9, 9, 9, 9),
    "rms-norm-mul-rope-256": (0, 0, 0, 0, 0, 4, 4, 4),
    "rms-norm-back-256": (6, 6, 6, 6, 6, 6, 6, 6),
    "softmax-256": (3, 3, 3, 3, 3, 3, 3, 3),
    "softmax-no-cooperative-groups": (7, 7, 7, 7, 7, 7, 7, 7),
    "reduce-rows-256": (4, 4, 4, 4, 4, 4, 4, 4),
    "argmax-256": (1, 1, 1, 1, 1, 1, 1, 1),
    "argsort-256": (4, 4, 4, 4, 4, 4, 5, 1),
    "add-id-256": (1, 1, 1, 1, 1, 1, 1, 1),
    "solve-tri-256": (1, 1, 1, 1, 1, 1, 1, 1),
    "gcn-register": (7, 7, 7, 7, 7, 7, 6, 6),
    "dot-products": (3, 3, 3, 3, 3, 3, 3, 3),
}
# (recipe, tree) that stops before anything is written: the reason
STOPS: dict[tuple[str, str], str] = {}


def recipes() -> dict[str, Recipe]:
    names = yaml.safe_load((README.parent / "recipes.yaml").read_text(encoding="utf-8"))
    known = {name: load_recipe(name) for name in names}
    return {name: recipe for name, recipe in known.items() if not recipe.choose}


def cell(name: str, recipe: Recipe, tree: str) -> str:
    """What the table of the README says of a recipe on a tree."""
    if (name, tree) in STOPS:
        return f"stops: {STOPS[name, tree]}"
    counts = [PLACES[rule.id][TREES.index(tree)] for rule in recipe.rules]
    spare = f", {counts.count(0)} not needed" if 0 in counts else ""
    used = len(counts) - counts.count(0)
    return f"applies: {used} rules, {sum(counts)} places{spare}" if counts else "no edit"


def table() -> str:
    head = ["tree", *recipes()]
    rows = [[tree, *(cell(name, r, tree) for name, r in recipes().items())] for tree in TREES]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def test_the_readme_has_the_table_of_these_tests() -> None:
    assert table() in README.read_text(encoding="utf-8"), f"patches/README.md needs:\n{table()}"


@pytest.fixture(scope="module")
def source(any_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of a tree that the rules touch."""
    base = tmp_path_factory.mktemp("base")
    for folder in ("ggml/src/ggml-cuda", "ggml/src/ggml-hip"):
        shutil.copytree(any_tree / folder, base / folder)
    return base


@pytest.mark.source
@pytest.mark.parametrize("name", recipes())
def test_a_recipe_on_a_tree_does_what_the_table_says_and_can_be_undone(
    source: Path, any_name: str, name: str, tmp_path: Path
) -> None:
    base = sha256_tree(source)
    rules = recipes()[name].rules
    plan = make_plan(source, rules)
    if (name, any_name) in STOPS:
        assert STOPS[name, any_name] in next(o.problem for o in plan.outcomes if o.problem)
        return
    found = {outcome.rule.id: len(outcome.places) for outcome in plan.outcomes}
    assert found == {rule.id: PLACES[rule.id][TREES.index(any_name)] for rule in rules}
    for outcome in plan.outcomes:
        assert outcome.state == ("to apply" if outcome.places else "not needed"), outcome.problem
        assert bool(outcome.reason) == (outcome.state == "not needed")
    applied = apply_plan(plan, tmp_path)
    assert [check for check in post_conditions(applied.tree, rules) if check.status != "ok"] == []
    assert {check.status for check in digest_checks(plan, applied, base)} == {"ok"}
    again = make_plan(applied.tree, rules).require()
    assert again.after == {}
    assert {outcome.state for outcome in again.outcomes} <= {"applied", "not needed"}


@pytest.mark.source
def test_every_tree_has_the_option_of_flags_and_one_use_on_each_side(any_tree: Path) -> None:
    option = "GGML_HIP_MMQ_MFMA"
    assert f"option({option}" in (any_tree / "ggml" / "CMakeLists.txt").read_text(encoding="utf-8")
    kernels = any_tree / "ggml" / "src" / "ggml-cuda"
    uses = {
        path.name: path.read_text(encoding="utf-8").count("defined(GGML_HIP_NO_MMQ_MFMA)")
        for path in kernels.rglob("*.*")
    }
    # a condition and the comment that repeats it: AMD_MFMA_AVAILABLE, and the host's predicate
    assert {name: count for name, count in uses.items() if count} == {"common.cuh": 4}
    common = (kernels / "common.cuh").read_text(encoding="utf-8")
    predicate = " ".join(common[common.index("static bool amd_mfma_available(") :].split())
    assert predicate.startswith(
        "static bool amd_mfma_available(const int cc) { #if !defined(GGML_HIP_NO_MMQ_MFMA) "
        "return GGML_CUDA_CC_IS_CDNA(cc); #else return false; #endif"
    )
