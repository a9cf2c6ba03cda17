"""Which video is asked about."""

from __future__ import annotations

from pathlib import Path

from keyelab.video.source import obtain


def test_no_name_makes_the_red_circle_and_a_name_is_taken_as_it_is(tmp_path: Path) -> None:
    assert obtain("", tmp_path).name == "a-red-circle-moves-right.mp4"
    assert obtain(str(tmp_path / "mine.mp4"), tmp_path) == tmp_path / "mine.mp4"
