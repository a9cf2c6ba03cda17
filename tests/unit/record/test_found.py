"""Run folders are found wherever they are, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import make_run

from keyelab.record.found import is_run, run_folders
from keyelab.record.row import read


def test_runs_are_found_three_folders_down_and_not_deeper(tmp_path: Path) -> None:
    near, far = make_run(tmp_path / "a" / "b"), make_run(tmp_path / "c", 1)
    make_run(tmp_path / "a" / "b" / "c", 2)
    assert set(run_folders(tmp_path)) == {near, far}


def test_a_run_is_not_looked_into_and_a_link_to_one_found_is_passed_over(tmp_path: Path) -> None:
    outer = make_run(tmp_path)
    make_run(outer)
    (tmp_path / "link").symlink_to(outer)
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list(run_folders(tmp_path))
    assert len(found) == 1
    assert found[0].resolve() == outer


@pytest.mark.parametrize("mark", ["run.json", "SHA256SUMS"])
def test_a_half_written_run_is_found(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    assert not is_run(folder)
    (folder / mark).touch()
    assert is_run(folder)
    assert list(run_folders(tmp_path)) == [folder]


def test_a_folder_with_a_runs_name_is_one_that_was_killed_at_once(tmp_path: Path) -> None:
    (tmp_path / "20261201T080847Z-a77d5e8d").mkdir()
    (tmp_path / "scratch").mkdir()
    assert [path.name for path in run_folders(tmp_path)] == ["20261201T080847Z-a77d5e8d"]


def test_a_folder_that_may_not_be_looked_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    (tmp_path / "closed").mkdir()
    exists, stat = Path.exists, Path.stat

    def refuse(path: Path, *words: Any, **named: Any) -> Any:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied")
        return stat(path, *words, **named)

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "exists", lambda path: bool(refuse(path)) and exists(path))
    assert set(run_folders(tmp_path)) == {run, tmp_path / "closed"}
    assert read(tmp_path / "closed").notes == ["cannot be read: Permission denied"]
