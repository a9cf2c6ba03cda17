"""Frames are chosen by time, exactly, and stand for the whole video."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.errors import UsageError
from keyelab.params import resolve
from keyelab.video.decode import take
from keyelab.video.probe import VideoInfo, probe
from keyelab.video.sample import Pick, Sampling, article_comparison, plan, sampling


def steady(duration_s: float, frames: int) -> VideoInfo:
    """A video of equally spaced frames."""
    tick_s = duration_s / frames
    stamps = tuple(range(frames))
    return VideoInfo(
        Path("v.mp4"), "mp4", "h264", 96, 64, frames, stamps, tick_s, duration_s, duration_s
    )


def test_targets_are_the_middles_of_equal_parts() -> None:
    info = steady(4.0, 40)
    picks = plan(info, fps=1.0, max_frames=10)
    assert [pick.requested_s for pick in picks] == [0.5, 1.5, 2.5, 3.5]
    assert [pick.index for pick in picks] == [5, 15, 25, 35]
    assert [pick.requested_s for pick in plan(info, fps=2.0, max_frames=2)] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("fps", 0.0, "greater than 0"),
        ("fps", math.nan, "less than or equal to 1000"),
        ("fps", math.inf, "less than or equal to 1000"),
        ("max_frames", 0, "greater than or equal to 1"),
        ("frame_size_px", -1, "greater than or equal to 0"),
        ("jpeg_quality", 101, "less than or equal to 100"),
    ],
)
def test_impossible_wishes_are_refused(key: str, value: float, said: str) -> None:
    with pytest.raises(UsageError, match=rf"video_test.{key}: expected a .*number {said}"):
        resolve("video_test", "cpu-demo", {key: value})


def test_a_whole_number_of_parts_is_not_rounded_up_by_arithmetic() -> None:
    assert len(plan(steady(4.0000000001, 40), fps=2.0, max_frames=99)) == 8


@given(
    duration=st.floats(0.01, 1e5), fps=st.floats(1e-3, 1e3), most=st.integers(1, 500),
    frames=st.integers(1, 2000),
)  # fmt: skip
def test_any_plan_covers_the_duration_with_at_most_the_asked_frames(
    duration: float, fps: float, most: int, frames: int
) -> None:
    picks = plan(steady(duration, frames), fps=fps, max_frames=most)
    assert 1 <= len(picks) <= min(most, frames)
    part = duration / len(picks)
    for i, pick in enumerate(picks):
        assert abs((pick.time_s or 0) - (i + 0.5) * part) <= duration / frames / 2 + 0.001


def test_the_articles_indices_lose_the_tail_and_times_do_not() -> None:
    rows = {row["candidates"]: row for row in article_comparison(10)}
    assert [rows[n]["article's last frame at"] for n in (10, 19, 29)] == ["95%", "50%", "64%"]
    assert rows[19]["article keeps"] == "0 … 9"
    assert all(int(str(r["last frame at, by time"]).rstrip("%")) >= 90 for r in rows.values())


@pytest.mark.parametrize("bframes", ["0", "3"])
def test_the_frame_nearest_to_each_target_is_taken(
    make_video: Any, frame_number: Any, bframes: str
) -> None:
    info = probe(make_video(count=40, rate=10, options={"x264-params": f"bframes={bframes}"}))
    wanted = plan(info, fps=3.0, max_frames=12)
    taken = list(take(info, wanted))
    assert [pick for pick, _ in taken] == wanted
    assert len(taken) == 12
    for pick, rgb in taken:
        assert pick.index == frame_number(rgb)
        assert pick.time_s == pytest.approx(pick.index / 10, abs=0.002)
        assert abs((pick.time_s or 0) - (pick.requested_s or 0)) <= 0.051


def test_variable_rate_is_sampled_by_time_to_its_end(make_video: Any, frame_number: Any) -> None:
    times = [i * 0.05 for i in range(20)] + [1.0 + i * 0.5 for i in range(10)]
    info = probe(make_video(times=times))
    taken = list(take(info, plan(info, fps=2.0, max_frames=10)))
    assert (taken[-1][0].time_s or 0) >= 5.0
    for pick, rgb in taken:
        assert frame_number(rgb) == pick.index
        assert pick.time_s == pytest.approx(times[pick.index], abs=0.002)


@pytest.mark.parametrize("name", ["says1000.mkv", "says1000.mp4"])
def test_a_stated_rate_of_1000_is_not_believed(make_video: Any, name: str) -> None:
    info = probe(make_video(name, times=[i / 30 for i in range(40)], rate=1000))
    assert info.duration_s == pytest.approx(4 / 3, abs=0.05)
    taken = [pick.time_s for pick, _ in take(info, plan(info, fps=2.0, max_frames=10))]
    assert taken == pytest.approx([0.22, 0.67, 1.11], abs=0.05)


def test_unknown_times_are_sampled_by_count_and_marked(make_video: Any, frame_number: Any) -> None:
    info = probe(make_video("raw.h264", count=20, kind="h264"))
    wanted = plan(info, fps=2.0, max_frames=4)
    assert [pick.index for pick in wanted] == [2, 7, 12, 17]
    assert {(pick.time_s, pick.requested_s) for pick in wanted} == {(None, None)}
    assert [frame_number(rgb) for _, rgb in take(info, wanted)] == [2, 7, 12, 17]


def test_what_an_edit_list_cuts_off_is_neither_counted_nor_sent(
    make_video: Any, frame_number: Any, skip_frames: Any
) -> None:
    path = make_video(count=40, rate=10)
    skip_frames(path, 10, rate=10)
    info = probe(path)
    assert info.frames == 30
    assert info.duration_s == pytest.approx(3.0, abs=0.01)
    first, *_, last = take(info, plan(info, fps=10.0, max_frames=30))
    assert (frame_number(first[1]), frame_number(last[1])) == (10, 39)
    assert (first[0].index, first[0].time_s) == (0, pytest.approx(0.0, abs=0.06))


def test_a_sideways_recording_is_turned_upright(make_video: Any, turned: Any) -> None:
    marked = numpy.full((64, 96, 3), 20, numpy.uint8)
    marked[:20, :20] = 230  # top left as recorded is top right once turned clockwise
    path = make_video(pictures=[marked] * 3)
    turned(path)
    info = probe(path)
    _, picture = next(take(info, plan(info, fps=2.0, max_frames=1)))
    assert picture.shape == (96, 64, 3)
    assert picture[:15, -15:].mean() > 180
    assert picture[:15, :15].mean() < 60


def test_a_frame_is_never_sent_twice(make_video: Any) -> None:
    info = probe(make_video(times=[0.0, 0.1, 0.2, 5.0]))
    wanted = plan(info, fps=2.0, max_frames=4)
    indices = [pick.index for pick, _ in take(info, wanted)]
    assert indices == sorted(set(indices))
    assert len(indices) < len(wanted)
    assert indices[-1] == 3


def test_one_frame_is_a_video_too(make_video: Any) -> None:
    info = probe(make_video(count=1))
    assert len(list(take(info, plan(info, fps=2.0, max_frames=10)))) == 1


def test_a_cut_file_gives_the_frames_it_has(make_video: Any) -> None:
    path = make_video(count=40, options={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - (len(content) - content.index(b"mdat")) // 2])
    info = probe(path)
    taken = list(take(info, plan(info, fps=2.0, max_frames=10)))
    assert 1 <= len(taken) <= 10


def test_explicit_times_take_the_nearest_frames_in_order_and_win_over_the_rest(
    make_video: Any, frame_number: Any
) -> None:
    info = probe(make_video(count=40, rate=10))
    picks = plan(info, fps=1.0, max_frames=1, times_s=[3.96, 0, 1.04, 4.0], sampling="scene")
    assert [pick.index for pick in picks] == [0, 10, 39, 39]
    assert [pick.requested_s for pick in picks] == [0, 1.04, 3.96, 4.0]
    assert [frame_number(rgb) for _, rgb in take(info, picks)] == [0, 10, 39]


@pytest.mark.parametrize("wrong", [[-0.1], [1.0, 4.2], [math.nan], [math.inf]])
def test_times_outside_the_video_are_named_with_its_end(
    make_video: Any, wrong: list[float]
) -> None:
    info = probe(make_video(count=40, rate=10))
    with pytest.raises(UsageError, match=r"times from 0 to 4\.000 s in .*clip\.mp4") as caught:
        plan(info, fps=1.0, max_frames=1, times_s=wrong)
    assert f"found {wrong[-1]:g}" in caught.value.message
    raw = probe(make_video("raw.h264", kind="h264"))
    with pytest.raises(UsageError, match=r"a video with times, found .* without"):
        plan(raw, fps=1.0, max_frames=1, times_s=[0.5])


def test_sampling_says_how_many_were_asked_differ_decode_and_are_sent() -> None:
    info = steady(10.0, 100)
    picks = plan(info, fps=1.0, max_frames=10)
    whole = sampling(info, picks, picks)
    assert whole == Sampling(10, 10, 10, 10, 1.0, 1.0)
    lost = sampling(info, picks, [*picks[:4], *picks[6:]], sent=7)
    assert (lost.asked, lost.chosen, lost.decodable, lost.sent) == (10, 10, 8, 7)
    assert lost.coverage == pytest.approx(0.81, abs=0.02), "a hole in the middle is seen"
    assert lost.largest_gap_s == pytest.approx(3.0, abs=0.1)
    half = sampling(info, picks, picks[:5])
    assert half.coverage == pytest.approx(0.5, abs=0.02)
    assert half.largest_gap_s == pytest.approx(5.5, abs=0.1)


def test_a_frame_that_stands_still_counts_for_all_the_time_it_is_shown(make_video: Any) -> None:
    info = probe(make_video(times=[0.0, 0.1, 0.2, 5.0, 5.1]))
    picks = plan(info, fps=2.0, max_frames=4)
    found = sampling(info, picks, [pick for pick, _ in take(info, picks)])
    assert found.chosen == found.decodable < found.asked == 4
    assert (found.coverage or 0) > 0.95
    assert found.largest_gap_s == pytest.approx(4.8, abs=0.01)


def test_coverage_of_unknown_times_is_unknown(make_video: Any) -> None:
    info = probe(make_video("raw.h264", kind="h264"))
    picks = plan(info, fps=1.0, max_frames=4)
    assert sampling(info, picks, picks) == Sampling(4, 4, 4, 4, None, None)
    assert sampling(steady(1, 10), [Pick(0, 0, 0.5, 0.0)], []).coverage is None
