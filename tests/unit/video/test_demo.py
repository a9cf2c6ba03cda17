"""Demo clips show what their caption says."""

from __future__ import annotations

import itertools
from pathlib import Path

import av
import numpy
import pytest

from keyelab.errors import UsageError
from keyelab.video.decode import take
from keyelab.video.demo import COLOURS, MOTIONS, SHAPES, Film, Story, draw, make_clip
from keyelab.video.probe import probe
from keyelab.video.sample import Pick


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


def frames_of(path: Path) -> list[numpy.ndarray]:
    """Every frame, turned upright as a player does."""
    with av.open(str(path)) as container:
        return [
            numpy.rot90(one.to_ndarray(format="rgb24"), round(one.rotation / 90))
            for one in container.decode(video=0)
        ]


def test_captions_tell_what_happens_later() -> None:
    captions = {
        Story(then="left").caption: "a red circle moves right, then left",
        Story(motion="still", then="up").caption: "a red circle stays still, then moves up",
        Story(then="blue").caption: "a red circle moves right, then turns blue",
    }
    assert list(captions) == list(captions.values())


def test_a_late_event_shows_after_its_time_only() -> None:
    turns = Story("red", "square", "still", "blue", at=0.9)
    assert draw(turns, 0.89)[48, 48].tolist() == list(COLOURS["red"])
    assert draw(turns, 0.91)[48, 48].tolist() == list(COLOURS["blue"])
    starts = Story("red", "circle", "still", "up", at=0.9)
    places = [centre(draw(starts, share))[1] for share in (0.0, 0.9, 0.95, 1.0)]
    assert places[0] == places[1]
    assert places[1] - places[2] == pytest.approx(24, abs=0.5)
    assert places[2] - places[3] == pytest.approx(24, abs=0.5)


def test_a_change_of_direction_goes_and_returns() -> None:
    story = Story("green", "circle", "right", "left", at=0.5)
    left, middle, back = (centre(draw(story, share))[0] for share in (0.0, 0.5, 1.0))
    assert middle - left == pytest.approx(48, abs=0.5)
    assert back == pytest.approx(left, abs=0.1)


STORED = [
    ("a.mp4", "libx264"), ("a.mp4", "libx265"), ("a.mp4", "libvpx-vp9"), ("a.mp4", "libsvtav1"),
    ("a.mov", "libx264"), ("a.mov", "libx265"), ("a.mov", "mpeg4"),
    ("a.mkv", "libx264"), ("a.mkv", "libx265"), ("a.mkv", "libvpx-vp9"), ("a.mkv", "libsvtav1"),
    ("a.mkv", "ffv1"), ("a.webm", "libvpx-vp9"), ("a.webm", "libsvtav1"),
    ("a.avi", "libx264"), ("a.avi", "libvpx-vp9"), ("a.avi", "libsvtav1"), ("a.avi", "mjpeg"),
]  # fmt: skip


@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize(("name", "codec"), STORED)
def test_every_container_holds_the_same_pictures_at_the_same_times(
    tmp_path: Path, name: str, codec: str, variable: bool
) -> None:
    story = Story("green", "square", "down")
    film = Film(160, 120, rate=5, duration_s=3.0, codec=codec, variable=variable)
    if variable and name == "a.avi":
        with pytest.raises(UsageError, match=r"stores times, found a\.avi"):
            make_clip(tmp_path / name, story, film)
        return
    info = probe(make_clip(tmp_path / name, story, film))
    times_s = [float(one) for one in film.times()]
    assert info.frames == len(times_s) == (7 if variable else 15)
    assert info.duration_s == pytest.approx(3.0, abs=0.01)
    picks = [Pick(stamp, number) for number, stamp in enumerate(info.stamps)]
    shown = list(take(info, picks))
    assert len(shown) == len(times_s)
    assert info.times_s.tolist() == pytest.approx(times_s, abs=0.001)
    for (_, picture), time_s in zip(shown, times_s, strict=True):
        assert picture.shape == (120, 160, 3)
        drawn = draw(story, time_s / times_s[-1], film)
        assert numpy.abs(picture.astype(int) - drawn).mean() < 2


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mov", "libx265"), ("a.mp4", "libvpx-vp9"), ("a.mp4", "libsvtav1")],
)
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_turned_clip_is_shown_upright(
    tmp_path: Path, degrees: int, name: str, codec: str
) -> None:
    story = Story("blue", "triangle", "up")
    film = Film(width=128, duration_s=1.0, codec=codec, rotation_deg=degrees)
    shown = frames_of(make_clip(tmp_path / name, story, film))
    assert shown[0].shape == (96, 128, 3)
    assert numpy.abs(shown[0].astype(int) - draw(story, 0.0, film)).mean() < 4
    with av.open(str(tmp_path / name)) as container:
        stored = next(container.decode(video=0))
    assert (stored.width, stored.height) == ((96, 128) if degrees != 180 else (128, 96))


def test_a_variable_rate_keeps_the_times_and_the_duration(tmp_path: Path) -> None:
    film = Film(variable=True)
    info = probe(make_clip(tmp_path / "a.mp4", Story(), film))
    assert 15 < info.frames < 40
    gaps = numpy.diff([float(one) for one in film.times()])
    assert len({round(gap, 3) for gap in gaps}) > 1
    assert info.duration_s == pytest.approx(4.0, abs=0.1)


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(UsageError, match=r"ends in .*\.mp4.*, found clip\.txt"):
        make_clip(Path("clip.txt"), Story())
    with pytest.raises(UsageError, match=r"\.webm can hold, found libx264, 96 × 96 px"):
        make_clip(Path("clip.webm"), Story())
    with pytest.raises(UsageError, match="found nonsense"):
        make_clip(Path("clip.mp4"), Story(), Film(codec="nonsense"))
    with pytest.raises(UsageError, match="found libx264, 97 × 97 px"):
        make_clip(Path("clip.mp4"), Story(), Film(97, 97))
    with pytest.raises(UsageError, match="0, 90, 180 or 270"):
        make_clip(Path("clip.mkv"), Story(), Film(rotation_deg=90))
