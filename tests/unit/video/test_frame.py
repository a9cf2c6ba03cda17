"""Frames as sent: exact colours, kept proportions, the same bytes every time."""

from __future__ import annotations

import base64
from typing import Any

import cv2
import numpy
import pytest

from keyelab.errors import UsageError
from keyelab.video.frame import collect, encode, facts, rows, square
from keyelab.video.probe import probe
from keyelab.video.sample import Picture, plan


def picture(rgb: Any) -> Picture:
    return Picture(index=7, requested_s=0.5, time_s=0.52, rgb=rgb)


def solid(colour: tuple[int, int, int], size: tuple[int, int] = (96, 96)) -> Any:
    return numpy.full((size[1], size[0], 3), colour, numpy.uint8)


def decoded(jpeg: bytes) -> Any:
    bgr = cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def test_red_stays_red() -> None:
    frame = encode(picture(solid((220, 30, 30))), 1, size_px=0, jpeg_quality=95)
    red, green, blue = decoded(frame.jpeg).reshape(-1, 3).mean(axis=0)
    assert red > 200
    assert green < 60
    assert blue < 60


def test_bytes_are_the_same_every_time_and_depend_on_the_quality() -> None:
    noise = numpy.random.default_rng(1).integers(0, 255, (96, 96, 3), dtype=numpy.uint8)
    one = encode(picture(noise), 1, size_px=96, jpeg_quality=90)
    assert encode(picture(noise), 1, size_px=96, jpeg_quality=90).jpeg == one.jpeg
    assert len(encode(picture(noise), 1, size_px=96, jpeg_quality=40).jpeg) < len(one.jpeg)
    assert base64.b64decode(one.data_uri.removeprefix("data:image/jpeg;base64,")) == one.jpeg


def test_a_square_of_the_asked_size_is_left_alone() -> None:
    rgb = solid((1, 2, 3))
    assert square(rgb, 96) is rgb


@pytest.mark.parametrize("size", [(192, 108), (108, 192), (20, 10), (640, 3)])
def test_other_shapes_are_padded_with_black_and_not_stretched(size: tuple[int, int]) -> None:
    boxed = square(solid((200, 200, 200), size), 96)
    assert boxed.shape == (96, 96, 3)
    lit = boxed.max(axis=2) > 100
    high, wide = lit.any(axis=1).sum(), lit.any(axis=0).sum()
    assert max(high, wide) == 96
    assert wide / high == pytest.approx(size[0] / size[1], rel=0.6 if min(size) < 5 else 0.03)


@pytest.mark.parametrize(("quality", "size"), [(0, 96), (101, 96), (90, -1)])
def test_impossible_quality_or_size_is_refused(quality: int, size: int) -> None:
    with pytest.raises(UsageError, match="jpeg_quality from 1 to 100"):
        encode(picture(solid((0, 0, 0))), 1, size_px=size, jpeg_quality=quality)


def test_collected_frames_are_numbered_told_and_recorded(make_video: Any) -> None:
    told: list[tuple[float | None, str]] = []
    info = probe(make_video(count=20))
    frames = collect(
        info,
        plan(info, fps=2.0, max_frames=4),
        size_px=96,
        jpeg_quality=90,
        on_progress=lambda share, text: told.append((share, text)),
    )
    assert [frame.number for frame in frames] == [1, 2, 3, 4]
    assert told[-1] == (1.0, "frame 4 of 4")
    assert rows(frames)[0]["requested (s)"] == 0.25
    kept = facts(info, frames, 1.0)
    assert kept["video"].size_bytes == info.path.stat().st_size
    assert [fact.index for fact in kept["frames"]] == [frame.index for frame in frames]
