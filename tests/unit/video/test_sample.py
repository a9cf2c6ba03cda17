"""Frames are chosen by time, exactly, and stand for the whole video."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.errors import KeyelabError, UsageError
from keyelab.video.probe import VideoInfo, probe
from keyelab.video.sample import Plan, coverage, plan, take

INFO = VideoInfo(
    path=Path("v.mp4"),
    container="mp4",
    codec="h264",
    width=96,
    height=64,
    frames=40,
    fps=10.0,
    duration_s=4.0,
    start_s=0.0,
    stated_duration_s=4.0,
    variable_rate=False,
    rotation_deg=0,
)


def test_targets_are_the_middles_of_equal_parts() -> None:
    assert plan(INFO, fps=1.0, max_frames=10).times_s == (0.5, 1.5, 2.5, 3.5)
    assert plan(INFO, fps=2.0, max_frames=2).times_s == (1.0, 3.0)


def test_a_whole_number_of_parts_is_not_rounded_up_by_arithmetic() -> None:
    assert plan(replace(INFO, duration_s=4.0000000001), fps=2.0, max_frames=99).count == 8


@given(
    duration=st.floats(0.01, 1e5), fps=st.floats(1e-3, 1e3), most=st.integers(1, 500),
    frames=st.integers(1, 10**6),
)  # fmt: skip
def test_any_plan_covers_the_duration_with_at_most_the_asked_frames(
    duration: float, fps: float, most: int, frames: int
) -> None:
    wanted = plan(replace(INFO, duration_s=duration, frames=frames), fps=fps, max_frames=most)
    assert 1 <= wanted.count <= min(most, frames)
    assert 0 < wanted.times_s[0] <= wanted.times_s[-1] < duration
    assert coverage(list(wanted.times_s), wanted, duration) == pytest.approx(1.0)


@pytest.mark.parametrize(("fps", "most"), [(0.0, 10), (-1.0, 10), (math.nan, 10), (2.0, 0)])
def test_impossible_wishes_are_refused(fps: float, most: int) -> None:
    with pytest.raises(UsageError, match="fps above 0"):
        plan(INFO, fps=fps, max_frames=most)


@pytest.mark.parametrize("bframes", ["0", "3"])
def test_the_frame_nearest_to_each_target_is_taken(
    make_video: Any, frame_number: Any, bframes: str
) -> None:
    info = probe(make_video(count=40, rate=10, options={"x264-params": f"bframes={bframes}"}))
    wanted = plan(info, fps=3.0, max_frames=12)
    taken = list(take(info, wanted))
    assert len(taken) == 12
    for target, picture in zip(wanted.times_s, taken, strict=True):
        assert picture.index == frame_number(picture.rgb)
        assert picture.time_s == pytest.approx(picture.index / 10, abs=0.002)
        assert abs(picture.time_s - target) <= 0.0501


def test_variable_rate_is_sampled_by_time_to_its_end(make_video: Any, frame_number: Any) -> None:
    times = [i * 0.05 for i in range(20)] + [1.0 + i * 0.5 for i in range(10)]
    info = probe(make_video(times=times))
    taken = list(take(info, plan(info, fps=2.0, max_frames=10)))
    assert taken[-1].time_s is not None
    assert taken[-1].time_s >= 5.0
    for picture in taken:
        assert frame_number(picture.rgb) == picture.index
        assert picture.time_s == pytest.approx(times[picture.index], abs=0.002)


def test_unknown_times_are_sampled_by_count_and_marked(make_video: Any, frame_number: Any) -> None:
    info = probe(make_video("raw.h264", count=20, kind="h264"))
    wanted = plan(info, fps=2.0, max_frames=4)
    assert wanted.indices == (2, 7, 12, 17)
    taken = list(take(info, wanted))
    assert [frame_number(picture.rgb) for picture in taken] == [2, 7, 12, 17]
    assert {(picture.time_s, picture.requested_s) for picture in taken} == {(None, None)}
    assert coverage([p.time_s for p in taken], wanted, info.duration_s) is None


def test_what_an_edit_list_cuts_off_is_neither_counted_nor_sent(
    make_video: Any, frame_number: Any, skip_frames: Any
) -> None:
    path = make_video(count=40, rate=10)
    skip_frames(path, 10, rate=10)
    info = probe(path)
    assert info.frames == 30
    assert info.duration_s == pytest.approx(3.0, abs=0.01)
    first, *_, last = take(info, plan(info, fps=10.0, max_frames=30))
    assert (frame_number(first.rgb), frame_number(last.rgb)) == (10, 39)
    assert (first.index, first.time_s) == (0, pytest.approx(0.0, abs=0.06))


def test_a_sideways_recording_is_turned_upright(make_video: Any, rotate_90: Any) -> None:
    marked = numpy.full((64, 96, 3), 20, numpy.uint8)
    marked[:20, :20] = 230  # top left as recorded is top right once turned clockwise
    path = make_video(pictures=[marked] * 3)
    rotate_90(path)
    picture = next(take(info := probe(path), plan(info, fps=2.0, max_frames=1))).rgb
    assert picture.shape == (96, 64, 3)
    assert picture[:15, -15:].mean() > 180
    assert picture[:15, :15].mean() < 60


def test_a_frame_is_never_sent_twice(make_video: Any) -> None:
    info = probe(make_video(times=[0.0, 0.1, 0.2, 5.0]))
    wanted = plan(info, fps=2.0, max_frames=4)
    taken = list(take(info, wanted))
    assert len({picture.index for picture in taken}) == len(taken)
    assert taken[-1].index == 3


def test_one_frame_is_a_video_too(make_video: Any) -> None:
    info = probe(make_video(count=1))
    assert [picture.index for picture in take(info, plan(info, fps=2.0, max_frames=10))] == [0]


def test_a_cut_file_gives_the_frames_it_has(make_video: Any) -> None:
    path = make_video(count=40, options={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - (len(content) - content.index(b"mdat")) // 2])
    info = probe(path)
    taken = list(take(info, plan(info, fps=2.0, max_frames=10)))
    assert 1 <= len(taken) <= 10
    assert all(picture.time_s is not None for picture in taken)


def test_no_frame_left_is_an_error_not_an_empty_request(make_video: Any) -> None:
    path = make_video(count=5)
    info = probe(path)
    content = path.read_bytes()
    start = content.index(b"mdat") + 4
    path.write_bytes(
        content[:start]
        + b"\xff" * (content.index(b"moov") - 4 - start)
        + content[content.index(b"moov") - 4 :]
    )
    with pytest.raises(KeyelabError, match="none could be decoded"):
        list(take(info, plan(info, fps=2.0, max_frames=5)))


def test_coverage_of_half_a_video_is_half() -> None:
    wanted = Plan(times_s=tuple(i + 0.5 for i in range(10)))
    assert coverage([i + 0.5 for i in range(5)], wanted, 10.0) == pytest.approx(0.5)
    assert coverage([], wanted, 10.0) is None
