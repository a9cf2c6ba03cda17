"""A folder that is being made is whole or not there, and what a killed process left of it goes."""

from __future__ import annotations

from pathlib import Path

from holding import other_holder

from keyelab import partial


def test_what_a_killed_process_left_goes_and_what_another_makes_stays(tmp_path: Path) -> None:
    dead, living, other = (tmp_path / name for name in (".partial-a", ".partial-b", ".pip-c"))
    for folder in (dead, living, other):
        (folder / "files").mkdir(parents=True)
    with other_holder(living), partial.folder(tmp_path) as mine:
        assert sorted(tmp_path.iterdir()) == sorted([living, other, mine])
        partial.remove_left(tmp_path)
        assert mine.is_dir(), "one that is being made is not taken for a left one"
    assert sorted(tmp_path.iterdir()) == [living, other]


def test_it_goes_when_it_was_renamed_or_something_went_wrong(tmp_path: Path) -> None:
    try:
        with partial.folder(tmp_path / "store") as made:
            (made / "whole").mkdir()
            (made / "whole").rename(tmp_path / "whole")
            raise ValueError
    except ValueError:
        pass
    assert (tmp_path / "whole").is_dir()
    assert list((tmp_path / "store").iterdir()) == []
