"""Rule and recipe files: strict, complete, and consistent with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import ProbeFacts
from keyelab.files import project_root
from keyelab.patching.recipe import Recipe, header_rules, load_recipe
from keyelab.patching.rule import Expect, checked, load_rule

PATCHES = project_root() / "patches"
RULE: dict[str, Any] = {
    "id": "one",
    "title": "One",
    "why": {"symptom": "s", "cause": "c", "evidence": "e"},
    "applies_to": ["a.txt"],
    "edits": [{"find": "x", "replace": "y"}],
}


def written(folder: Path, rule: dict[str, Any]) -> Path:
    path = folder / "one.yaml"
    path.write_text(yaml.safe_dump(rule), encoding="utf-8")
    return path


def test_a_plain_number_is_an_exact_expectation() -> None:
    expect = Expect.model_validate(3)
    assert [expect.holds(n) for n in (2, 3, 4)] == [False, True, False]
    assert str(expect) == "3"
    assert str(Expect(min=1, max=4)) == "1 to 4"


def test_an_unknown_key_in_a_rule_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = written(tmp_path, {**RULE, "edits": [{"find": "x", "replace": "y", "fnd": "z"}]})
    with pytest.raises(KeyelabError, match=r"edits\.0\.text\.fnd") as caught:
        load_rule(path)
    assert caught.value.hint == "the format: patches/README.md"


def test_with_several_files_each_edit_has_to_name_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, {**RULE, "applies_to": ["a.txt", "b.txt"]})
    with pytest.raises(KeyelabError, match="each edit names its file"):
        load_rule(path)


def test_an_edit_of_a_file_outside_applies_to_is_an_error(tmp_path: Path) -> None:
    edit = {"find": "x", "replace": "y", "file": "elsewhere.txt"}
    path = written(tmp_path, {**RULE, "edits": [edit]})
    with pytest.raises(KeyelabError, match=r"elsewhere\.txt is not in applies_to"):
        load_rule(path)


def test_a_rule_file_is_named_after_its_rule(tmp_path: Path) -> None:
    path = written(tmp_path, {**RULE, "id": "two"})
    with pytest.raises(KeyelabError, match="expected 'one', found 'two'"):
        load_rule(path)


def test_broken_yaml_and_a_missing_file_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(KeyelabError, match="expected YAML"):
        load_rule(tmp_path / "one.yaml")
    with pytest.raises(KeyelabError, match="found none"):
        load_rule(tmp_path / "two.yaml")


def test_every_rule_file_loads_and_belongs_to_a_recipe() -> None:
    recipes = yaml.safe_load((PATCHES / "recipes.yaml").read_text(encoding="utf-8"))
    loaded = {name: load_recipe(name) for name in recipes}
    used = {rule.id for recipe in loaded.values() for rule in recipe.rules}
    assert {name for recipe in loaded.values() for name in recipe.choose} <= set(recipes)
    assert used == {path.stem for path in (PATCHES / "llama.cpp").glob("*.yaml")}
    assert {rule.id for rule in header_rules()} == {
        path.stem for path in (PATCHES / "headers").glob("*.yaml")
    }


def test_every_rule_is_described_in_the_readme() -> None:
    text = (PATCHES / "README.md").read_text(encoding="utf-8")
    rules = sorted(path.stem for path in (PATCHES / "llama.cpp").glob("*.yaml"))
    assert [rule for rule in rules if f"| {rule} |" not in text] == []


def test_the_unused_macro_of_the_article_is_not_added() -> None:
    for path in (PATCHES / "llama.cpp").glob("*.yaml"):
        assert "GGML_CUDA_MAX_THREADS_PER_BLOCK" not in path.read_text(encoding="utf-8")


def test_an_unknown_recipe_is_a_usage_error_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'k100ai'"):
        load_recipe("k100al")


def test_the_empty_name_is_the_empty_series() -> None:
    assert load_recipe("").rules == []


def test_a_recipe_says_what_it_asks_of_later_phases() -> None:
    recipe = load_recipe("article")
    assert recipe.weights == ["F32", "F16", "BF16"]
    assert recipe.block_limit == 256
    assert recipe.flash_attention == "off"
    assert {"RMS_NORM", "SOFT_MAX", "ARGSORT"} <= set(recipe.gate)
    flags = load_recipe("flags")
    assert flags.rules == []
    assert flags.cmake == {
        "CMAKE_HIP_FLAGS": "--gpu-max-threads-per-block=1024",
        "GGML_HIP_MMQ_MFMA": "OFF",
    }
    assert flags.needs == ["runs_1024_flag"]
    assert load_recipe("gcn-dot").needs == ["gfx9", "runs_1024_flag", "runs_512_bound", "dot"]


def test_a_need_is_something_that_the_probe_answers() -> None:
    names = yaml.safe_load((PATCHES / "recipes.yaml").read_text(encoding="utf-8"))
    needs = {need for name in names for need in load_recipe(name).needs}
    answers = {n for n, f in ProbeFacts.model_fields.items() if f.annotation == bool | None}
    assert needs <= answers


def test_a_recipe_that_chooses_has_nothing_of_its_own() -> None:
    recipe = load_recipe("k100ai")
    assert recipe.choose == ["gcn-dot", "gcn", "article"]
    assert recipe.rules == []
    head = {"title": "t", "why": "w"}
    with pytest.raises(KeyelabError, match="everything else from the chosen one"):
        checked(Recipe, {**head, "choose": ["article"], "weights": ["any"]}, "here")
    with pytest.raises(KeyelabError, match="expected choose, or block_limit flash_attention rules"):
        checked(Recipe, {**head, "weights": ["any"]}, "here")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"after": [{"name": "n", "file": "a", "absent": "("}]}, "is no regular expression"),
        ({"after": [{"name": "n", "absent": "x"}]}, "name their file"),
        ({"after": [{"name": "n", "file": "a"}]}, "expected one of present and absent"),
        ({"still_needed": {"file": "a", "present": "x"}}, r"still_needed\.otherwise"),
        (
            {"still_needed": {"file": "a", "present": "x", "absent": "y", "otherwise": "o"}},
            "expected one of present and absent",
        ),
        (
            {"edits": [{"find": "x", "replace": "y", "when": {"version": "b1"}}]},
            r"edits\.0\.text\.when\.version",
        ),
        ({"verify": "ROPE"}, "verify"),
    ],
)
def test_a_wrong_probe_is_an_error_that_names_the_file(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(KeyelabError, match=message) as caught:
        load_rule(written(tmp_path, {**RULE, **wrong}))
    assert "one.yaml" in caught.value.message
