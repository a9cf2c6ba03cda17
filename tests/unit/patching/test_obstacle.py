"""What keeps a tree from being patched in place is named, and nothing is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from patching_tree import FILES, make_tree, planned

from keyelab.errors import KeyelabError
from keyelab.files import STATE, sha256_tree
from keyelab.patching import obstacle
from keyelab.patching.inplace import apply, revert


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def refused(tree: Path) -> KeyelabError:
    before = sha256_tree(tree)
    with pytest.raises(KeyelabError) as caught:
        apply(planned(tree), "r")
    assert sha256_tree(tree) == before
    assert not (tree / STATE).exists()
    return caught.value


def commit(tree: Path) -> None:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*names, "commit", "--quiet", "-m", "base"]):
        subprocess.run(["git", *words], cwd=tree, check=True, timeout=30)


@pytest.mark.parametrize("staged", [False, True])
def test_files_modified_against_git_are_named_with_the_command_to_see_it(
    tree: Path, staged: bool
) -> None:
    commit(tree)
    (tree / FILES[0]).write_text("old a, mine\n")
    if staged:
        subprocess.run(["git", "add", "."], cwd=tree, check=True, timeout=30)
    error = refused(tree)
    assert error.message.endswith(f"found modified: {FILES[0]}")
    assert error.hint.endswith(f"git -C {tree} diff HEAD {FILES[0]}")


def test_the_names_are_right_where_the_tree_is_a_folder_of_the_repository(tree: Path) -> None:
    commit(tree.parent)
    (tree / FILES[0]).write_text("old a, mine\n")
    assert refused(tree).message.endswith(f"found modified: {FILES[0]}")


def test_other_modified_and_new_files_are_no_obstacle(tree: Path) -> None:
    commit(tree)
    (tree / "ggml/src/stays.cu").write_text("mine\n")
    (tree / "ggml/src/mine.cu").write_text("mine\n")
    assert not apply(planned(tree), "r").already
    assert not revert(tree).already
    assert (tree / "ggml/src/stays.cu").read_text() == "mine\n"


def test_without_git_there_is_nothing_to_compare(
    tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(tree)
    (tree / FILES[0]).write_text("old a, mine\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not apply(planned(tree), "r").already


@pytest.mark.parametrize("place", [FILES[0], "ggml/src", "ggml", "."])
def test_read_only_files_and_folders_are_named(tree: Path, place: str) -> None:
    mode = (tree / place).stat().st_mode
    (tree / place).chmod(mode & ~0o222)
    error = refused(tree)
    (tree / place).chmod(mode)
    assert f"expected to be able to change {tree / place}, found that it is read-only" in (
        error.message
    )
    assert "cp -r" in error.hint


def test_a_tree_that_belongs_to_somebody_else_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *arguments, **named: False)
    assert refused(tree).message.endswith("found that this user may not write it")


def test_a_disk_that_is_mounted_read_only_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda path: mounted)
    assert refused(tree).message.endswith("found that its disk is mounted read-only")


def test_a_real_read_only_mount_is_named(tree: Path) -> None:
    ask = "import sys, pathlib; from keyelab.patching import obstacle; "
    ask += "print(obstacle.unwritable(pathlib.Path(sys.argv[1])))"
    mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'
    unshare = ["unshare", "-m", "sh", "-c", mount, "sh", str(tree), sys.executable, ask]
    if shutil.which("unshare") is None:
        pytest.skip("there is no program unshare")
    done = subprocess.run(unshare, capture_output=True, text=True, timeout=60)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no mount of one's own here: {done.stderr.strip()[:80]}")
    assert done.stdout.strip() == "its disk is mounted read-only"


def test_a_link_to_the_tree_is_named_with_what_it_leads_to(tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    error = refused(link)
    assert f"found a symbolic link at {link}" in error.message
    assert error.hint.endswith(str(tree))


@pytest.mark.parametrize("place", [FILES[0], "ggml/src"])
def test_links_inside_the_tree_are_named(tree: Path, place: str) -> None:
    (tree / place).rename(tree.parent / "elsewhere")
    (tree / place).symlink_to(tree.parent / "elsewhere")
    with pytest.raises(KeyelabError, match=r"found a symbolic link at .*tree/ggml/src"):
        obstacle.require_patchable(tree, FILES)
