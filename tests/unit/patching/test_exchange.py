"""A folder and its twin exchanged: what stays, what is noticed, what is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.patching import exchange
from keyelab.patching.exchange import exchange_files, remove


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "sub").mkdir(parents=True)
    (made / "a").write_text("old")
    (made / "b").write_text("stays")
    return made


def swap(folder: Path, problem: str = "") -> None:
    exchange_files(folder, {"a": b"new"}, folder.parent / "next", lambda: problem)


def test_only_the_named_file_is_another_one(folder: Path) -> None:
    inodes = {name: (folder / name).stat().st_ino for name in "ab"}
    swap(folder)
    assert (folder / "a").read_text() == "new"
    assert (folder / "a").stat().st_ino != inodes["a"]
    assert (folder / "b").stat().st_ino == inodes["b"]
    assert list(folder.parent.iterdir()) == [folder]


def test_a_problem_puts_the_old_folder_back(folder: Path) -> None:
    with pytest.raises(KeyelabError, match="folder: it is wrong; nothing was changed"):
        swap(folder, "it is wrong")
    assert (folder / "a").read_text() == "old"
    assert list(folder.parent.iterdir()) == [folder]


def test_an_interruption_while_it_is_looked_at_puts_the_old_folder_back(folder: Path) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exchange_files(folder, {"a": b"new"}, folder.parent / "next", interrupted)
    assert (folder / "a").read_text() == "old"
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("way", ["written", "renamed", "new"])
def test_a_change_by_somebody_else_is_noticed_and_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    real = exchange._exchange

    def meanwhile(one: Path, other: Path) -> None:
        if not (folder.parent / "done").exists():
            (folder.parent / "done").touch()
            if way == "written":
                (folder / "b").write_text("edited")
            elif way == "renamed":
                (folder / "c").write_text("edited")
                (folder / "c").rename(folder / "b")
            else:
                (folder / "sub" / "new").write_text("edited")
        real(one, other)

    monkeypatch.setattr(exchange, "_exchange", meanwhile)
    with pytest.raises(KeyelabError, match="somebody else changed it meanwhile"):
        swap(folder)
    assert (folder / "a").read_text() == "old"
    assert (folder / ("sub/new" if way == "new" else "b")).read_text() == "edited"


def test_folders_that_cannot_be_exchanged_raise_the_systems_error(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(FileNotFoundError):
        exchange._exchange(tmp_path / "one", tmp_path / "none")


def test_read_only_folders_are_copied_and_removed(folder: Path) -> None:
    (folder / "sub" / "file").write_text("x")
    (folder / "sub").chmod(0o555)
    swap(folder)
    assert (folder / "sub").stat().st_mode & 0o777 == 0o555
    assert (folder / "sub" / "file").read_text() == "x"
    remove(folder)
    assert not folder.exists()
    remove(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(folder: Path) -> None:
    os.chown(folder / "a", 65534, 65534)
    os.chown(folder / "sub", 65534, 65534)
    swap(folder)
    assert (folder / "a").stat().st_uid == 65534
    assert (folder / "sub").stat().st_uid == 65534
