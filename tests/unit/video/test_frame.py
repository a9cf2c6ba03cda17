"""Frames as sent: exact colours, kept proportions, the same bytes every time."""

from __future__ import annotations

import base64
from typing import Any

import cv2
import numpy
import pytest

from keyelab.errors import KeyelabError
from keyelab.video.frame import Frame, collect, coverage, encode, rows, square
from keyelab.video.probe import probe
from keyelab.video.sample import Pick, plan

PICK = Pick(stamp=7, index=7, requested_s=0.5, time_s=0.52)


def solid(colour: tuple[int, int, int], size: tuple[int, int] = (96, 96)) -> Any:
    return numpy.full((size[1], size[0], 3), colour, numpy.uint8)


def decoded(jpeg: bytes) -> Any:
    bgr = cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def test_red_stays_red() -> None:
    frame = encode(solid((220, 30, 30)), PICK, 1, size_px=0, jpeg_quality=95)
    red, green, blue = decoded(frame.jpeg).reshape(-1, 3).mean(axis=0)
    assert red > 200
    assert green < 60
    assert blue < 60


def test_bytes_are_the_same_every_time_and_depend_on_the_quality() -> None:
    noise = numpy.random.default_rng(1).integers(0, 255, (96, 96, 3), dtype=numpy.uint8)
    one = encode(noise, PICK, 1, size_px=96, jpeg_quality=90)
    assert encode(noise, PICK, 1, size_px=96, jpeg_quality=90).jpeg == one.jpeg
    assert len(encode(noise, PICK, 1, size_px=96, jpeg_quality=40).jpeg) < len(one.jpeg)
    assert base64.b64decode(one.data_uri.removeprefix("data:image/jpeg;base64,")) == one.jpeg


def test_a_square_of_the_asked_size_is_left_alone() -> None:
    rgb = numpy.random.default_rng(1).integers(0, 255, (96, 96, 3), dtype=numpy.uint8)
    assert (square(rgb, 96) == rgb).all()


@pytest.mark.parametrize("size", [(192, 108), (108, 192), (20, 10), (640, 3)])
def test_other_shapes_are_padded_with_black_and_not_stretched(size: tuple[int, int]) -> None:
    boxed = square(solid((200, 200, 200), size), 96)
    assert boxed.shape == (96, 96, 3)
    lit = boxed.max(axis=2) > 100
    high, wide = lit.any(axis=1).sum(), lit.any(axis=0).sum()
    assert max(high, wide) == 96
    assert wide / high == pytest.approx(size[0] / size[1], rel=0.6 if min(size) < 5 else 0.03)


def test_collected_frames_are_numbered_and_told(make_video: Any) -> None:
    told: list[tuple[float | None, str]] = []
    info = probe(make_video(count=20))
    picks = plan(info, fps=2.0, max_frames=4)
    frames = collect(
        info,
        picks,
        size_px=96,
        jpeg_quality=90,
        on_progress=lambda share, text: told.append((share, text)),
    )
    assert [frame.number for frame in frames] == [1, 2, 3, 4]
    assert told[-1] == (1.0, "frame 4 of 4")
    assert rows(frames)[0]["requested (s)"] == 0.25
    assert coverage(info, len(picks), frames) == pytest.approx(1.0, abs=0.03)
    assert coverage(info, len(picks), frames[:2]) == pytest.approx(0.5, abs=0.03)


def test_coverage_without_times_is_unknown(make_video: Any) -> None:
    info = probe(make_video("raw.h264", count=20, kind="h264"))
    assert coverage(info, 1, [Frame(1, Pick(None, 0), b"", 1, 1)]) is None


def test_no_frame_left_is_an_error_with_the_convert_command(make_video: Any) -> None:
    path = make_video("-odd name.mp4", count=5)
    info = probe(path)
    content = path.read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    path.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])
    with pytest.raises(KeyelabError, match=r"frames of .* to decode") as caught:
        collect(info, plan(info, fps=2.0, max_frames=5), size_px=0, jpeg_quality=90)
    assert "ffmpeg -i '" in caught.value.hint
    assert "-c:v libx264" in caught.value.hint
