"""A recipe on a tree of one's own: whole or not at all, proven by digest, and taken back."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patching_tree import FILES, make_tree, planned

from keyelab.errors import KeyelabError
from keyelab.files import STATE, sha256_tree
from keyelab.patching import exchange, inplace
from keyelab.patching.inplace import apply, common_folder, revert
from keyelab.patching.plan import DoesNotFit, make_plan
from keyelab.patching.recipe import load_recipe
from keyelab.patching.state import status


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def git(tree: Path, *words: str) -> str:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *names, *words], cwd=tree, check=True, capture_output=True, text=True, timeout=30
    ).stdout


def test_the_tree_gets_the_planned_digest_and_keeps_modes_links_and_times(tree: Path) -> None:
    before, foretold = sha256_tree(tree), planned(tree).tree_sha256()
    done = apply(planned(tree), "r")
    assert (done.base_sha256, done.tree_sha256) == (before, foretold)
    assert sha256_tree(tree) == foretold != before
    assert not done.already
    assert done.files == FILES
    source = tree / "ggml" / "src"
    assert (source / "cuda" / "run.cu").read_bytes() == b"new b\r\n"
    assert (source / "cuda" / "run.cu").stat().st_mode & 0o777 == 0o755
    assert (source / "cuda").stat().st_mode & 0o777 == 0o750
    assert os.readlink(source / "link") == "a.cu"  # noqa: PTH115
    unchanged = (source / "stays.cu").stat()
    assert (unchanged.st_mtime, unchanged.st_nlink) == (1_000_000_000, 1)
    assert (source / "a.cu").stat().st_mtime > time.time() - 600, "a build has to see the change"
    assert sorted(path.name for path in tree.parent.iterdir()) == ["tree"]


def test_what_is_needed_for_the_way_back_is_kept_and_git_does_not_see_it(tree: Path) -> None:
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", "base")
    apply(planned(tree), "r")
    saved = json.loads((tree / STATE / "patch.json").read_text())
    assert saved["schema"] == 1
    assert saved["recipe"] == "r"
    assert saved["tree_sha256"] == sha256_tree(tree)
    assert set(saved["files"]) == set(FILES)
    assert (tree / STATE / "before" / FILES[0]).read_bytes() == b"old a\n"
    assert not (tree / STATE / "next").exists()
    assert git(tree, "status", "--porcelain").split() == ["M", FILES[0], "M", FILES[1]]
    git(tree, "apply", "--reverse", str(tree / STATE / "patch.diff"))
    assert git(tree, "status", "--porcelain") == ""


def test_applying_and_reverting_twice_does_nothing_and_says_so(tree: Path) -> None:
    base = sha256_tree(tree)
    first = apply(planned(tree), "r")
    inode = (tree / FILES[0]).stat().st_ino
    again = apply(planned(tree), "r")
    assert again.already
    assert (again.base_sha256, again.tree_sha256) == (base, first.tree_sha256)
    assert (tree / FILES[0]).stat().st_ino == inode
    assert not revert(tree).already
    assert revert(tree).already
    assert sha256_tree(tree) == base


def test_revert_is_byte_identical_leaves_nothing_behind_and_is_newer_for_a_build(
    tree: Path,
) -> None:
    base = sha256_tree(tree)
    apply(planned(tree), "r")
    os.utime(tree / FILES[0], (1_000_000_000, 1_000_000_000))
    done = revert(tree)
    assert done.tree_sha256 == done.base_sha256 == sha256_tree(tree) == base
    assert not (tree / STATE).exists()
    assert (tree / FILES[0]).stat().st_mtime > time.time() - 600


def test_the_status_tells_pristine_patched_and_edited(tree: Path) -> None:
    assert status(tree).kind == "pristine"
    apply(planned(tree), "r")
    now = status(tree)
    assert now.kind == "patched"
    assert now.patch is not None
    assert now.patch.recipe == "r"
    (tree / FILES[1]).write_bytes(b"mine\n")
    assert status(tree).kind == "edited"
    assert status(tree).edited == (FILES[1],)


@pytest.mark.parametrize("content", [b"mine\n", b"old b\r\n", None], ids=["own", "old", "gone"])
def test_edits_since_are_named_and_neither_reverted_nor_patched(
    tree: Path, content: bytes | None
) -> None:
    apply(planned(tree), "r")
    (tree / FILES[1]).unlink()
    if content is not None:
        (tree / FILES[1]).write_bytes(content)
    before = sha256_tree(tree)
    with pytest.raises(KeyelabError, match=f"edited since: {FILES[1]}"):
        revert(tree)
    with pytest.raises(KeyelabError, match=f"edited since: {FILES[1]}"):
        apply(planned(tree, FILES[0]), "r")
    assert sha256_tree(tree) == before
    assert (tree / STATE / "before" / FILES[0]).exists()


def test_edits_elsewhere_survive_both_ways_and_the_digest_tells_of_them(tree: Path) -> None:
    apply(planned(tree), "r")
    (tree / "ggml/src/stays.cu").write_text("mine\n")
    (tree / "build").mkdir()
    (tree / "build/a.o").write_text("object\n")
    done = revert(tree)
    assert done.tree_sha256 != done.base_sha256
    assert (tree / FILES[0]).read_bytes() == b"old a\n"
    assert (tree / "ggml/src/stays.cu").read_text() == "mine\n"


def test_a_tree_that_was_put_back_by_hand_is_pristine_again(tree: Path) -> None:
    apply(planned(tree), "r")
    for file in FILES:
        shutil.copy(tree / STATE / "before" / file, tree / file)
    assert status(tree).kind == "pristine"
    assert not apply(planned(tree), "r").already
    assert status(tree).kind == "patched"


def test_another_recipe_on_top_is_refused(tree: Path) -> None:
    apply(planned(tree, FILES[0]), "one")
    with pytest.raises(KeyelabError, match="found one applied in place, of which two") as caught:
        apply(planned(tree), "two")
    assert "keyelab patch revert" in caught.value.hint


def test_a_rule_that_does_not_fit_leaves_the_tree_alone(tree: Path) -> None:
    before = sha256_tree(tree)
    with pytest.raises(DoesNotFit):
        apply(planned(tree, FILES[0], "ggml/CMakeLists.txt"), "r")
    assert sha256_tree(tree) == before
    assert not (tree / STATE).exists()


def test_a_tree_that_was_edited_since_it_was_planned_is_refused(tree: Path) -> None:
    plan = planned(tree)
    (tree / FILES[0]).write_text("old a, and mine\n")
    with pytest.raises(KeyelabError, match="edited since it was planned"):
        apply(plan, "r")
    assert (tree / FILES[0]).read_text() == "old a, and mine\n"
    assert not (tree / STATE).exists()


@pytest.mark.parametrize("function", ["exchange._exchange", "os.link"])
def test_a_file_system_that_cannot_is_named_and_nothing_is_left(
    tree: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(22, "Invalid argument")

    before = sha256_tree(tree)
    owner = exchange if function.startswith("exchange") else os
    monkeypatch.setattr(owner, function.split(".")[1], refuse)
    with pytest.raises(KeyelabError, match="cannot be changed in place: Invalid argument") as error:
        apply(planned(tree), "r")
    assert "the tree is pristine" in error.value.message
    assert "cp -r" in error.value.hint
    monkeypatch.undo()
    assert sha256_tree(tree) == before
    assert not (tree / STATE).exists()


def test_files_at_the_top_of_the_tree_are_refused_before_anything_is_written(tree: Path) -> None:
    assert common_folder(FILES) == "ggml/src"
    assert common_folder(["ggml/src/cuda/run.cu"]) == "ggml/src/cuda"
    (tree / "README.md").write_text("old\n")
    with pytest.raises(KeyelabError, match="expected files below one folder"):
        apply(planned(tree, "README.md", FILES[0]), "r")
    assert not (tree / STATE).exists()


def test_a_damaged_original_is_not_taken_for_the_way_back(tree: Path) -> None:
    patched = apply(planned(tree), "r").tree_sha256
    (tree / STATE / "before" / FILES[0]).write_text("damaged\n")
    with pytest.raises(KeyelabError, match=f"expected the original of {FILES[0]}"):
        revert(tree)
    assert sha256_tree(tree) == patched


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"recipe": 1, "files": {}, "schema": 2}'])
def test_a_state_file_that_is_not_ours_is_named(tree: Path, text: str) -> None:
    (tree / STATE).mkdir()
    (tree / STATE / "patch.json").write_text(text)
    with pytest.raises(KeyelabError, match=r"patch\.json"):
        revert(tree)


def test_two_at_once_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setattr(inplace, "_lock", at_once)
    with inplace._alone(tree), pytest.raises(KeyelabError, match="another keyelab patch at work"):
        apply(planned(tree), "r")
    assert not apply(planned(tree), "r").already


def test_a_build_that_writes_meanwhile_is_noticed_and_the_old_tree_is_back(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = inplace.exchange_files

    def with_a_build(*arguments: object) -> None:
        (tree / "build.log").write_text("cc a.o\n")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(inplace, "exchange_files", with_a_build)
    with pytest.raises(KeyelabError, match="is a build running"):
        apply(planned(tree), "r")
    assert (tree / FILES[0]).read_bytes() == b"old a\n"
    assert not (tree / STATE).exists()


def test_a_kill_at_any_moment_leaves_the_old_tree_or_the_new_one(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "patching_tree.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "30"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["changes"] > 60, "killed before each change of the disk"
    assert found["random"] == 30
    assert found["left"] == ["tree"]
    assert min(found["pristine"], found["patched"]) > 20


@pytest.mark.source
def test_the_pinned_tree_is_patched_and_taken_back_in_place(
    llama_source: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(llama_source / "ggml", tree / "ggml", symlinks=True)
    base, rules = sha256_tree(tree), load_recipe("article").rules
    plan = make_plan(tree, rules)
    done = apply(plan, "article")
    assert sha256_tree(tree) == done.tree_sha256 == plan.tree_sha256()
    assert len(done.files) == len(plan.after) > 10
    assert apply(make_plan(tree, rules), "article").already
    assert revert(tree).tree_sha256 == base
