"""Choosing frames by time, so that they stand for the whole video.

N = min(max_frames, ceil(T · fps)) equal parts, of each the frame that is nearest to its middle,
t_i = (i + 0.5) · T / N. The article counts indices instead: with 19 candidates and at most 10
frames it keeps the first ten, half of the video.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from keyelab.errors import UsageError
from keyelab.files import shown
from keyelab.video.probe import VideoInfo


@dataclass(frozen=True)
class Pick:
    """A frame to take: its time stamp (None where times are unknown), its index, times (s)."""

    stamp: int | None
    index: int
    requested_s: float | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class Sampling:
    """How many frames were asked for, differ from each other, decoded and were sent.

    `coverage` is the share of the duration that the decoded ones stand for, and `largest_gap_s` the
    longest time between two of them or to an end of the video; None where times are unknown.
    """

    asked: int
    chosen: int
    decodable: int
    sent: int
    coverage: float | None
    largest_gap_s: float | None


def plan(
    info: VideoInfo,
    *,
    fps: float,
    max_frames: int,
    times_s: Sequence[float] = (),
    sampling: str = "even",
) -> list[Pick]:
    """The frames to take from a video, by time, or evenly by count where times are unknown.

    With `times_s` those nearest to these times, whatever the other parameters say; with `sampling`
    "scene" those in the middle of scenes. A frame that stands still over several parts is in the
    list as often. Raises UsageError for times outside the video, or where its times are unknown.
    """
    if times_s:
        return [_nearest(info, time_s) for time_s in _inside(info, times_s)]
    length = info.duration_s or float(info.frames)
    count = min(max_frames, info.frames)
    if info.duration_s is not None:
        count = min(count, max(1, math.ceil(info.duration_s * fps - 1e-6)))
    if sampling == "scene":
        from keyelab.video import scene

        middles = scene.middles(scene.lengths(info), count)
    else:
        middles = [(i + 0.5) * length / count for i in range(count)]
    if info.duration_s is None:
        return [Pick(None, int(middle)) for middle in middles]
    return [_nearest(info, middle_s) for middle_s in middles]


def sampling(
    info: VideoInfo, picks: Sequence[Pick], taken: Sequence[Pick], sent: int | None = None
) -> Sampling:
    """What became of `picks`: `taken` are those that decoded, `sent` (default: all) were sent.

    A frame stands for the time it is shown and, to both sides of it, half of T / asked and of a
    frame's own time, because the nearest frame is so far from where it was asked for.
    """
    counts = (len(picks), len({pick.index for pick in picks}), len(taken))
    known = sorted(pick.index for pick in taken if pick.time_s is not None)
    sent = len(taken) if sent is None else sent
    if not known or not info.duration_s:
        return Sampling(*counts, sent, None, None)
    times_s = info.times_s.tolist()
    ends_s = [*times_s[1:], info.duration_s]
    half_s = (info.duration_s / len(picks) + info.duration_s / info.frames) / 2
    covered_s = reached_s = 0.0
    for index in known:
        start_s = max(reached_s, times_s[index] - half_s)
        end_s = min(info.duration_s, ends_s[index] + half_s)
        covered_s += max(0.0, end_s - start_s)
        reached_s = max(reached_s, end_s)
    stops_s = [0.0, *(times_s[index] for index in known), info.duration_s]
    gap_s = max(later - earlier for earlier, later in itertools.pairwise(stops_s))
    coverage = min(1.0, round(covered_s / info.duration_s, 6))
    return Sampling(*counts, sent, coverage, round(gap_s, 3))


def article(frames: int, rate: float, fps: float, max_frames: int) -> list[int]:
    """The indices that the article's program keeps of so many frames, `rate` of them a second."""
    candidates = range(0, frames, max(1, int(rate / fps)))
    return list(candidates[:: max(1, len(candidates) // max_frames)][:max_frames])


def article_comparison(max_frames: int) -> list[dict[str, str | int]]:
    """Table rows: how far into the video the article's last frame and ours stand."""
    rows: list[dict[str, str | int]] = []
    for count in (10, 11, 19, 29, 100):
        kept = article(count, 1, 1, max_frames)
        ours = math.floor((max_frames - 0.5) * count / max_frames)
        rows.append(
            {
                "candidates": count,
                "most sent": max_frames,
                "article keeps": f"{kept[0]} … {kept[-1]}",
                "article's last frame at": f"{(kept[-1] + 0.5) / count:.0%}",
                "last frame at, by time": f"{(ours + 0.5) / count:.0%}",
            }
        )
    return rows


def _inside(info: VideoInfo, times_s: Sequence[float]) -> list[float]:
    if info.duration_s is None:
        raise UsageError(
            f"video_test.times_s: expected a video with times, found {shown(info.path)} without",
            "keyelab run --set video_test.times_s=[]   # takes frames evenly by count",
        )
    outside = [time_s for time_s in times_s if not 0 <= time_s <= info.duration_s]
    if outside:
        raise UsageError(
            f"video_test.times_s: expected times from 0 to {info.duration_s:.3f} s in "
            f"{shown(info.path)}, found {', '.join(f'{time_s:g}' for time_s in outside)}",
            "take out what is outside, or set times_s to [] for frames over the whole video",
        )
    return sorted(times_s)


def _nearest(info: VideoInfo, wanted_s: float) -> Pick:
    """The nearest frame, the earlier of two that are equally near but for rounded time stamps.

    With as many parts as frames every middle lies between two frames.
    """
    apart_s = abs(info.times_s - wanted_s)
    rounding_s = min(0.001, info.tick_s, (info.duration_s or 0.0) / info.frames / 4)
    index = int((apart_s <= apart_s.min() + rounding_s).argmax())
    time_s = round(float(info.times_s[index]), 3)
    return Pick(info.stamps[index], index, round(wanted_s, 3), time_s)
