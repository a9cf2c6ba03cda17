"""The recipe that follows from the card, the tree and earlier gates."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from keyelab.errors import KeyelabError
from keyelab.facts import ProbeFacts
from keyelab.files import project_root, write_json
from keyelab.patching.choice import choice_checks, choose
from keyelab.patching.recipe import load_recipe

YES, NO, UNKNOWN = True, False, None
ALL = ProbeFacts(gfx9=True, runs_1024_flag=True, dot=True, runs_512_bound=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with recipes of its own: strong and middle need the card, weak needs nothing."""
    for name in ("notebooks", "params", "patches/llama.cpp", "tree"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    served = {"block_limit": 1024, "weights": ["any"], "flash_attention": "auto"}
    recipes = {
        name: {"title": name, "why": name, **served, "needs": needs, "rules": [f"to-{name}"]}
        for name, needs in {
            "strong": ["runs_1024_flag", "dot"],
            "middle": ["runs_1024_flag"],
            "weak": [],
        }.items()
    }
    recipes["k100ai"] = {"title": "t", "why": "w", "choose": ["strong", "middle", "weak"]}
    (tmp_path / "patches" / "recipes.yaml").write_text(yaml.safe_dump(recipes))
    for name in ("strong", "middle", "weak"):
        (tmp_path / "tree" / f"{name}.txt").write_text("as upstream\n")
        rule = {
            "id": f"to-{name}",
            "title": name,
            "why": {"symptom": "s", "cause": "c", "evidence": "e"},
            "applies_to": [f"{name}.txt"],
            "edits": [{"find": "as upstream", "replace": "patched"}],
        }
        (tmp_path / "patches" / "llama.cpp" / f"to-{name}.yaml").write_text(yaml.safe_dump(rule))
    return tmp_path


def fail_the_gate(home: Path, *names: str) -> Path:
    gates = home / "gates"
    for name in names:
        plan = choose(name, ALL, home / "tree").taken.plan
        assert plan
        content = {"passed": False, "failing": ["MUL_MAT"]}
        write_json(gates / f"{plan.tree_sha256()}.json", content)
    return gates


@pytest.mark.parametrize(
    ("flag", "dot", "taken"),
    [
        (YES, YES, "strong"),
        (YES, NO, "middle"),
        (YES, UNKNOWN, "middle"),
        (NO, YES, "weak"),
        (NO, NO, "weak"),
        (NO, UNKNOWN, "weak"),
        (UNKNOWN, YES, "weak"),
        (UNKNOWN, NO, "weak"),
        (UNKNOWN, UNKNOWN, "weak"),
    ],
)
def test_the_strongest_recipe_whose_needs_were_all_seen_is_taken(
    home: Path, flag: bool | None, dot: bool | None, taken: str
) -> None:
    choice = choose("k100ai", ProbeFacts(runs_1024_flag=flag, dot=dot), home / "tree")
    assert choice.name == taken
    assert choice.recipe == load_recipe(taken)
    assert [row["verdict"] for row in choice.rows()][-1] == "taken"
    assert all(row["because"] for row in choice.rows())


def test_without_a_probe_only_what_needs_nothing_is_taken_and_that_is_said(home: Path) -> None:
    choice = choose("k100ai", None)
    assert choice.name == "weak"
    [verdict] = choice_checks(choice, "hip")
    assert verdict.status == "unknown"
    assert "needs runs_1024_flag, dot, which no probe has shown" in verdict.found
    assert "keyelab probe" in verdict.remedy


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_build_for_no_hip_card_has_nothing_unknown_about_it(home: Path, backend: str) -> None:
    assert choice_checks(choose("k100ai", None), backend)[0].status == "ok"


def test_a_need_that_the_probe_found_false_is_an_answer_and_no_doubt(home: Path) -> None:
    choice = choose("k100ai", ProbeFacts(runs_1024_flag=False, dot=False))
    assert choice_checks(choice, "hip")[0].status == "ok"


def test_a_recipe_whose_rules_do_not_fit_the_tree_is_passed_over_with_the_place(
    home: Path,
) -> None:
    (home / "tree" / "strong.txt").write_text("moved on\n")
    choice = choose("k100ai", ALL, home / "tree")
    assert choice.name == "middle"
    assert "rule to-strong: " in choice.rows()[0]["because"]
    assert "strong.txt" in choice.rows()[0]["because"]
    assert choice_checks(choice, "hip")[0].status == "warned"


def test_a_recipe_whose_kernel_gate_failed_here_is_passed_over_and_named(home: Path) -> None:
    gates = fail_the_gate(home, "strong")
    choice = choose("k100ai", ALL, home / "tree", gates)
    assert choice.name == "middle"
    assert choice.rows()[0]["because"] == "its kernel gate failed on this host: MUL_MAT"
    [verdict] = choice_checks(choice, "hip")
    assert verdict.status == "warned"
    assert "strong: its kernel gate failed" in verdict.found


def test_a_gate_of_another_tree_says_nothing(home: Path) -> None:
    gates = fail_the_gate(home, "strong")
    (home / "tree" / "other.txt").write_text("one more file\n")
    assert choose("k100ai", ALL, home / "tree", gates).name == "strong"


@pytest.mark.parametrize("content", ['{"passed": true}', "{", "[]", '{"failing": ["X"]}', ""])
def test_a_gate_that_passed_or_cannot_be_read_stops_nothing(home: Path, content: str) -> None:
    gates = fail_the_gate(home, "strong")
    [result] = gates.iterdir()
    result.write_text(content)
    assert choose("k100ai", ALL, home / "tree", gates).name == "strong"


def test_when_nothing_is_left_the_error_names_every_reason(home: Path) -> None:
    gates = fail_the_gate(home, "middle", "weak")
    with pytest.raises(KeyelabError, match=r"strong: needs dot.*middle: .*gate.*weak: ") as caught:
        choose("k100ai", ProbeFacts(runs_1024_flag=True, dot=False), home / "tree", gates)
    assert "source_patch.recipe=weak" in caught.value.hint


def test_a_named_recipe_that_the_card_cannot_run_is_a_stop_that_names_another(home: Path) -> None:
    with pytest.raises(KeyelabError, match="recipe strong: needs dot, which the probe") as caught:
        choose("strong", ProbeFacts(runs_1024_flag=True, dot=False), home / "tree")
    assert caught.value.hint == "take the recipe middle"


def test_a_named_recipe_that_nobody_probed_for_goes_on_as_unknown(home: Path) -> None:
    choice = choose("strong", ProbeFacts(runs_1024_flag=True), home / "tree")
    assert (choice.name, choice.rows()[0]["verdict"]) == ("strong", "taken")
    assert choice_checks(choice, "hip")[0].status == "unknown"
    assert choice_checks(choice, "cpu")[0].status == "ok"


def test_a_named_recipe_goes_on_after_a_failed_gate_with_a_warning(home: Path) -> None:
    choice = choose("strong", ALL, home / "tree", fail_the_gate(home, "strong"))
    assert choice.name == "strong"
    assert choice_checks(choice, "hip")[0].status == "warned"


def test_the_plan_of_what_was_taken_comes_with_it(home: Path) -> None:
    plan = choose("k100ai", ALL, home / "tree").taken.plan
    assert plan
    assert list(plan.after) == ["strong.txt"]


def test_every_need_in_the_real_recipes_is_a_truth_value_of_the_probe() -> None:
    known = {n for n, f in ProbeFacts.model_fields.items() if f.annotation == bool | None}
    names = yaml.safe_load((project_root() / "patches" / "recipes.yaml").read_text())
    for name in names:
        assert set(load_recipe(name).needs) <= known, name


@pytest.mark.parametrize(
    ("flag", "dot", "taken"),
    [(YES, YES, "gcn-dot"), (YES, NO, "gcn"), (NO, NO, "article"), (UNKNOWN, YES, "article")],
)
def test_the_real_k100ai_takes_what_its_probe_allows(
    flag: bool | None, dot: bool | None, taken: str
) -> None:
    probe = ProbeFacts(gfx9=True, runs_1024_flag=flag, runs_512_bound=True, dot=dot)
    assert choose("k100ai", probe).name == taken
