"""Frames as sent: exact colours, kept proportions, the same bytes every time."""

from __future__ import annotations

import base64
from typing import Any

import cv2
import numpy
import pytest

from keyelab.errors import KeyelabError
from keyelab.params import VideoTest
from keyelab.video.frame import collect, encode, inside, rows, sampled, square
from keyelab.video.probe import probe
from keyelab.video.sample import Pick

PICK = Pick(stamp=7, index=7, requested_s=0.5, time_s=0.52)


def solid(colour: tuple[int, int, int], size: tuple[int, int] = (96, 96)) -> Any:
    return numpy.full((size[1], size[0], 3), colour, numpy.uint8)


def decoded(jpeg: bytes) -> Any:
    bgr = cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def test_red_stays_red() -> None:
    frame = encode(solid((220, 30, 30)), PICK, 1, jpeg_quality=95)
    red, green, blue = decoded(frame.jpeg).reshape(-1, 3).mean(axis=0)
    assert red > 200
    assert green < 60
    assert blue < 60


def test_bytes_are_the_same_every_time_and_depend_on_the_quality() -> None:
    noise = numpy.random.default_rng(1).integers(0, 255, (96, 96, 3), dtype=numpy.uint8)
    one = encode(noise, PICK, 1, jpeg_quality=90)
    assert encode(noise, PICK, 1, jpeg_quality=90).jpeg == one.jpeg
    assert len(encode(noise, PICK, 1, jpeg_quality=40).jpeg) < len(one.jpeg)
    assert base64.b64decode(one.data_uri.removeprefix("data:image/jpeg;base64,")) == one.jpeg


def test_a_square_of_the_asked_size_is_left_alone() -> None:
    rgb = numpy.random.default_rng(1).integers(0, 255, (96, 96, 3), dtype=numpy.uint8)
    assert (square(rgb, 96) == rgb).all()


@pytest.mark.parametrize("size", [(192, 108), (108, 192), (20, 10), (640, 3)])
def test_other_shapes_keep_their_proportions_and_are_padded_with_black(
    make_video: Any, size: tuple[int, int]
) -> None:
    fitted = inside(*size, 96)
    boxed = square(solid((200, 200, 200), fitted), 96)
    assert boxed.shape == (96, 96, 3)
    lit = boxed.max(axis=2) > 100
    high, wide = lit.any(axis=1).sum(), lit.any(axis=0).sum()
    assert (wide, high) == fitted
    assert max(high, wide) == 96
    assert wide / high == pytest.approx(size[0] / size[1], rel=0.6 if min(size) < 5 else 0.03)


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ({}, (192, 108)),
        ({"frame_max_px": 192 * 108 // 4}, (96, 54)),
        ({"frame_max_tokens": 8}, (105, 59)),  # 4 × 2 tiles of 28 px
        ({"frame_size_px": 96}, (96, 96)),
        ({"frame_size_px": 400}, (400, 400)),
        ({"frame_size_px": 400, "frame_max_tokens": 9}, (84, 84)),
    ],
    ids=str,
)
def test_each_limit_gives_the_size_that_is_sent(
    make_video: Any, limits: dict[str, int], size: tuple[int, int]
) -> None:
    pictures = [solid((0, 0, 200), (192, 108))] * 3
    info = probe(make_video(pictures=pictures))
    (one,) = collect(info, [Pick(info.stamps[1], 1)], VideoTest(**limits), tile_px=28)
    assert (one.width, one.height) == size
    assert decoded(one.jpeg).shape == (*size[::-1], 3)


def test_frames_are_sampled_numbered_and_told(make_video: Any) -> None:
    told: list[tuple[float | None, str]] = []
    info = probe(make_video(count=20))
    picks, frames = sampled(
        info,
        VideoTest(max_frames=4),
        tile_px=28,
        on_progress=lambda share, text: told.append((share, text)),
    )
    assert [frame.number for frame in frames] == [1, 2, 3, 4]
    assert [frame.pick for frame in frames] == picks
    assert told[-1] == (1.0, "frame 4 of 4")
    assert rows(frames)[0]["requested (s)"] == 0.25


def test_a_smaller_number_still_covers_the_whole_video(make_video: Any) -> None:
    picks, _ = sampled(probe(make_video(count=20)), VideoTest(max_frames=4), tile_px=28, most=2)
    assert [pick.requested_s for pick in picks] == [0.5, 1.5]


def test_given_times_are_taken(make_video: Any) -> None:
    params = VideoTest(times_s=[1.5, 0.2])
    picks, _ = sampled(probe(make_video(count=20)), params, tile_px=28)
    assert [pick.requested_s for pick in picks] == [0.2, 1.5]


def test_no_frame_left_is_an_error_with_the_convert_command(make_video: Any) -> None:
    path = make_video("-odd name.mp4", count=5)
    info = probe(path)
    content = path.read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    path.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])
    with pytest.raises(KeyelabError, match=r"frames of .* to decode") as caught:
        sampled(info, VideoTest(), tile_px=28)
    assert "ffmpeg -i '" in caught.value.hint
    assert "-c:v libx264" in caught.value.hint
