"""keyelab patch: what it says, its JSON, and its exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from keyelab.commands.patch import patch
from keyelab.errors import UsageError
from keyelab.files import sha256_tree

FILES = 13  # that the recipe article changes in b10019


@pytest.fixture
def tree(llama_source: Path, tmp_path: Path) -> Path:
    """The part of the pinned tree that the recipes touch."""
    made = tmp_path / "tree"
    for name in ("ggml-cuda", "ggml-hip"):
        shutil.copytree(llama_source / "ggml/src" / name, made / "ggml/src" / name)
    shutil.copy(llama_source / "ggml/CMakeLists.txt", made / "ggml")
    return made


def call(*words: object) -> Result:
    return CliRunner().invoke(patch, [str(word) for word in words])


def as_json(*words: object) -> dict[str, Any]:
    done = call(*words, "--json")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    content = json.loads(done.stdout)
    assert content["schema"] == 1
    return dict(content)


@pytest.mark.source
def test_plan_apply_verify_and_revert_in_turn(tree: Path) -> None:
    base = sha256_tree(tree)
    plan = as_json("plan", tree)
    assert (plan["recipe"], plan["fits"], plan["status"]) == ("article", True, "pristine")
    assert len(plan["files"]) == FILES
    argmax = next(rule for rule in plan["rules"] if rule["rule"] == "argmax-256")
    assert argmax["state"] == "to apply"
    assert argmax["places"] == [{"file": "ggml/src/ggml-cuda/argmax.cu", "line": 86}]
    assert call("verify", tree, "--recipe", "article").exit_code == 1

    applied = as_json("apply", tree)
    assert applied["already"] is False
    assert applied["base_sha256"] == base
    assert applied["tree_sha256"] == sha256_tree(tree) != base
    assert applied["files"] == plan["files"]
    assert as_json("apply", tree)["already"] is True
    assert as_json("plan", tree)["files"] == []

    verified = as_json("verify", tree)
    assert (verified["recipe"], verified["outcome"]) == ("article", "passed")
    assert verified["checks"][0]["name"] == "files are as article left them"

    reverted = as_json("revert", tree)
    assert (reverted["recipe"], reverted["identical"]) == ("article", True)
    assert reverted["tree_sha256"] == sha256_tree(tree) == base
    assert as_json("revert", tree)["already"] is True


@pytest.mark.source
def test_the_plan_is_a_table_that_says_which_recipe_was_taken_and_why(tree: Path) -> None:
    done = call("plan", tree)
    assert done.exit_code == 0
    assert "  article: taken: " in done.stdout
    assert "  gcn: passed over: " in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("argmax-256"))
    assert row.split() == ["argmax-256", "to", "apply", "1", "argmax.cu:86"]
    assert done.stdout.endswith(f"fits: {FILES} files to change\n")


@pytest.mark.source
def test_the_diff_of_a_plan_is_what_apply_does(tree: Path, tmp_path: Path) -> None:
    assert call("plan", tree, "--diff", tmp_path / "x.diff").exit_code == 0
    by_git = tmp_path / "by-git"
    shutil.copytree(tree, by_git)
    subprocess.run(["git", "apply", tmp_path / "x.diff"], cwd=by_git, check=True, timeout=30)
    assert sha256_tree(by_git) == as_json("apply", tree)["tree_sha256"]


@pytest.mark.source
def test_the_mailbox_of_a_plan_goes_through_git_am(tree: Path, tmp_path: Path) -> None:
    assert call("plan", tree, "--mbox", tmp_path / "x.mbox").exit_code == 0
    by_git = tmp_path / "by-git"
    shutil.copytree(tree, by_git)
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    base = ["commit", "--quiet", "-m", "base"]
    for words in (["init", "--quiet"], ["add", "."], base, ["am", str(tmp_path / "x.mbox")]):
        subprocess.run(
            ["git", *names, *words], cwd=by_git, check=True, timeout=60, capture_output=True
        )
    assert sha256_tree(by_git) == as_json("apply", tree)["tree_sha256"]


@pytest.mark.source
def test_a_tree_that_does_not_fit_is_planned_with_exit_code_1(tree: Path) -> None:
    argmax = tree / "ggml/src/ggml-cuda/argmax.cu"
    argmax.write_text(argmax.read_text(encoding="utf-8").replace("1024", "512"), encoding="utf-8")
    before = sha256_tree(tree)
    done = call("plan", tree, "--recipe", "article")
    assert done.exit_code == 1
    assert "does not fit: rule argmax-256: edit 1 of 1" in done.stdout
    found = as_json("plan", tree, "--recipe", "article")
    assert found["fits"] is False
    assert found["problem"].startswith("rule argmax-256")
    assert sha256_tree(tree) == before


@pytest.mark.source
def test_edits_since_fail_the_verification_and_are_named(tree: Path) -> None:
    call("apply", tree, "--recipe", "article")
    with (tree / "ggml/src/ggml-cuda/argmax.cu").open("a", encoding="utf-8") as stream:
        stream.write("// mine\n")
    found = as_json("verify", tree)
    assert found["outcome"] == "failed"
    assert found["checks"][0]["found"] == "edited since: ggml/src/ggml-cuda/argmax.cu"


@pytest.mark.source
def test_another_recipe_is_not_reverted_by_mistake(tree: Path) -> None:
    call("apply", tree, "--recipe", "article")
    done = call("revert", tree, "--recipe", "gcn")
    assert isinstance(done.exception, UsageError)
    assert "expected recipe gcn" in done.exception.message
    assert call("revert", tree, "--recipe", "article").exit_code == 0


def test_a_recipe_without_rules_changes_nothing_and_gives_its_build_flags(tmp_path: Path) -> None:
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").touch()
    done = call("apply", tmp_path, "--recipe", "flags")
    assert done.exit_code == 0
    assert "-DCMAKE_HIP_FLAGS=--gpu-max-threads-per-block=1024" in done.stdout
    assert "nothing to change" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["ggml"]


@pytest.mark.parametrize("command", ["plan", "apply", "verify", "revert"])
def test_a_folder_that_is_no_tree_is_a_usage_error(command: str, tmp_path: Path) -> None:
    for tree, found in ((tmp_path, "another folder"), (tmp_path / "none", "no folder")):
        done = call(command, tree)
        assert isinstance(done.exception, UsageError)
        assert done.exception.message.endswith(f"found {found}")


def test_an_unknown_recipe_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").touch()
    done = call("plan", tmp_path, "--recipe", "artcle")
    assert isinstance(done.exception, UsageError)
    assert "did you mean 'article'" in done.exception.message


def test_a_probe_of_the_card_decides_which_recipe_is_taken(tree: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "host"
    for transcript, recipe in (("probe_k100ai", "gcn-dot"), ("probe_only_256", "article")):
        assert as_json("plan", tree, "--probe", data / f"{transcript}.txt")["recipe"] == recipe


def test_a_transcript_that_is_not_there_is_a_usage_error(tree: Path, tmp_path: Path) -> None:
    done = call("plan", tree, "--probe", tmp_path / "none")
    assert isinstance(done.exception, UsageError)
    assert "transcript of a probe" in done.exception.message


def test_the_help_documents_the_shape_of_the_json() -> None:
    shown = call("--help").stdout
    for name in ("base_sha256", "rules: [{rule, state, places", "identical"):
        assert name in shown
