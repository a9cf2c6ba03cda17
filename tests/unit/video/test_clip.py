"""Demo clips show what their caption says."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy
import pytest

from keyelab.errors import UsageError
from keyelab.video.clip import COLOURS, MOTIONS, SHAPES, Story, make_clip, obtain, pictures
from keyelab.video.probe import probe


def centre(picture: numpy.ndarray) -> tuple[float, float, float]:
    """Where the shape stands (x, y) and how many pixels it has."""
    lit = picture.max(axis=2) > 130
    rows, columns = numpy.nonzero(lit)
    return float(columns.mean()), float(rows.mean()), float(lit.sum())


def test_caption_is_the_demo_models_wording() -> None:
    assert Story().caption == "a red circle moves right"
    assert Story("blue", "square", "still").caption == "a blue square stays still"


@pytest.mark.parametrize("motion", MOTIONS)
def test_shape_moves_as_told_and_far_enough(motion: str) -> None:
    first, *_, last = pictures(Story("green", "circle", motion), 8)
    (x0, y0, area), (x1, y1, _) = centre(first), centre(last)
    radius = (area / numpy.pi) ** 0.5
    assert 9 <= radius <= 16
    step_x, step_y = MOTIONS[motion]
    free = 96 - 2 * radius
    if motion == "still":
        assert abs(x1 - x0) < 1
        assert abs(y1 - y0) < 1
    else:
        assert (x1 - x0) * step_x + (y1 - y0) * step_y >= 0.35 * free
        assert abs((x1 - x0) * step_y) + abs((y1 - y0) * step_x) < 3


@pytest.mark.parametrize(("colour", "shape"), [*itertools.product(COLOURS, SHAPES)])
def test_shape_stays_inside_a_dark_ground(colour: str, shape: str) -> None:
    for picture in pictures(Story(colour, shape, "down"), 5, seed=3):
        border = numpy.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert border.max() <= 80
        assert numpy.abs(picture.reshape(-1, 3).astype(int) - COLOURS[colour]).sum(1).min() == 0


def test_same_input_gives_the_same_file_and_a_seed_changes_it(tmp_path: Path) -> None:
    one = make_clip(tmp_path / "a.mp4", Story()).read_bytes()
    assert make_clip(tmp_path / "b.mp4", Story()).read_bytes() == one
    assert make_clip(tmp_path / "c.mp4", Story(), seed=1).read_bytes() != one


def test_clip_has_the_asked_length_rate_and_size(tmp_path: Path) -> None:
    info = probe(make_clip(tmp_path / "a.mp4", Story(), duration_s=2.0, fps=10, size_px=64))
    assert (info.width, info.height, info.frames) == (64, 64, 20)
    assert info.duration_s == pytest.approx(2.0, abs=0.01)


def test_unknown_word_is_refused() -> None:
    with pytest.raises(UsageError, match="found purple"):
        Story(colour="purple")


def test_no_name_makes_the_red_circle_and_a_name_is_taken_as_it_is(tmp_path: Path) -> None:
    assert obtain("", tmp_path).name == "a-red-circle-moves-right.mp4"
    assert obtain(str(tmp_path / "mine.mp4"), tmp_path) == tmp_path / "mine.mp4"
