"""Choosing frames by time, so that they stand for the whole video.

N = min(max_frames, ceil(T · fps)) equal parts, of each the frame that is nearest to its middle,
t_i = (i + 0.5) · T / N. The article counts indices instead: with 19 candidates and at most 10
frames it keeps the first ten, half of the video.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.video.probe import VideoInfo, opened


@dataclass(frozen=True)
class Pick:
    """A frame to take: its time stamp (None where times are unknown), its index, times (s)."""

    stamp: int | None
    index: int
    requested_s: float | None = None
    time_s: float | None = None


def plan(info: VideoInfo, *, fps: float, max_frames: int) -> list[Pick]:
    """The frames to take from a video, by time, or evenly by count where times are unknown.

    A frame that stands still over several parts is in the list as often.
    """
    import numpy

    if info.duration_s is None:
        count = min(max_frames, info.frames)
        return [Pick(None, int((i + 0.5) * info.frames / count)) for i in range(count)]
    times_s = (numpy.array(info.stamps) - info.stamps[0]) * info.tick_s
    count = min(max_frames, info.frames, max(1, math.ceil(info.duration_s * fps - 1e-6)))
    picks = []
    for i in range(count):
        middle_s = (i + 0.5) * info.duration_s / count
        index = int(numpy.abs(times_s - middle_s).argmin())
        time_s = round(float(times_s[index]), 3)
        picks.append(Pick(info.stamps[index], index, round(middle_s, 3), time_s))
    return picks


def take(info: VideoInfo, picks: Sequence[Pick]) -> Iterator[tuple[Pick, Any]]:
    """Decode from the start; each picked frame once, upright RGB (height × width × 3, uint8).

    Frames that cannot be decoded are passed over.
    """
    import numpy

    wanted = {pick.index if pick.stamp is None else pick.stamp: pick for pick in picks[::-1]}
    for index, frame in enumerate(_decoded(info)):
        if pick := wanted.pop(index if info.duration_s is None else frame.pts, None):
            upright = numpy.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
            yield pick, numpy.ascontiguousarray(upright)
        if not wanted:
            return


def article_comparison(max_frames: int) -> list[dict[str, str | int]]:
    """Table rows: how far into the video the article's last frame and ours stand."""
    rows: list[dict[str, str | int]] = []
    for count in (10, 11, 19, 29, 100):
        kept = list(range(0, count, max(1, count // max_frames)))[:max_frames]
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


def _decoded(info: VideoInfo) -> Iterator[Any]:
    """Every frame that decodes, in the order they are shown."""
    import av

    with opened(info.path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
            except (StopIteration, av.error.FFmpegError):
                return
            with contextlib.suppress(av.error.FFmpegError):
                yield from packet.decode()
