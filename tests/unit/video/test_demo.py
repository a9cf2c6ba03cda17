"""Demo clips show what their caption says."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy
import pytest

from keyelab.video.demo import COLOURS, MOTIONS, SHAPES, Story, draw, make_clip
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
    story = Story("green", "circle", motion)
    (x0, y0, area), (x1, y1, _) = centre(draw(story, 0.0)), centre(draw(story, 1.0))
    radius = (area / numpy.pi) ** 0.5
    assert 9 <= radius <= 16
    step_x, step_y = MOTIONS[motion]
    far = 0.35 * (96 - 2 * radius) if motion != "still" else 0
    assert (x1 - x0) * step_x + (y1 - y0) * step_y >= far
    assert abs((x1 - x0) * (1 - abs(step_x))) + abs((y1 - y0) * (1 - abs(step_y))) < 1


@pytest.mark.parametrize(("colour", "shape"), [*itertools.product(COLOURS, SHAPES)])
def test_shape_stays_inside_a_dark_ground(colour: str, shape: str) -> None:
    for share in (0.0, 0.4, 1.0):
        picture = draw(Story(colour, shape, "down"), share)
        border = numpy.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert border.max() <= 80
        assert numpy.abs(picture.reshape(-1, 3).astype(int) - COLOURS[colour]).sum(1).min() == 0


def test_same_story_gives_the_same_file_of_four_seconds(tmp_path: Path) -> None:
    one = make_clip(tmp_path / "a.mp4", Story())
    assert make_clip(tmp_path / "b.mp4", Story()).read_bytes() == one.read_bytes()
    info = probe(one)
    assert (info.width, info.height, info.frames) == (96, 96, 48)
    assert info.duration_s == pytest.approx(4.0, abs=0.01)
