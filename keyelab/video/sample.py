"""Choosing frames by time, so that they stand for the whole video.

N = min(max_frames, ceil(T · fps)) equal parts; the frame nearest to the middle of each part,
t_i = (i + 0.5) · T / N, is taken while decoding from the start. The article counts indices
instead: with 19 candidates and at most 10 frames it keeps the first ten, half of the video.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown
from keyelab.video.probe import VideoInfo, opened


@dataclass(frozen=True)
class Plan:
    """Which frames are wanted: times (s) from the start, or indices when times are unknown."""

    times_s: tuple[float, ...] = ()
    indices: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Frames asked for."""
        return len(self.times_s) or len(self.indices)


@dataclass(frozen=True)
class Picture:
    """A decoded frame, upright: RGB (height × width × 3, uint8), its index and its time (s)."""

    index: int
    requested_s: float | None
    time_s: float | None
    rgb: Any


def plan(info: VideoInfo, *, fps: float, max_frames: int) -> Plan:
    """The frames to take from a video; raises UsageError for an impossible rate or number."""
    if not (math.isfinite(fps) and fps > 0) or max_frames < 1:
        raise UsageError(
            f"expected fps above 0 and max_frames of at least 1, found {fps:g} and {max_frames}",
            "set video_test.fps and video_test.max_frames",
        )
    if info.duration_s is None:
        count = min(max_frames, info.frames)
        return Plan(indices=tuple(int((i + 0.5) * info.frames / count) for i in range(count)))
    wanted = max(1, math.ceil(info.duration_s * fps - 1e-6))
    count = min(max_frames, wanted, info.frames)
    return Plan(times_s=tuple((i + 0.5) * info.duration_s / count for i in range(count)))


def take(info: VideoInfo, wanted: Plan) -> Iterator[Picture]:
    """Decode from the start and yield each wanted frame once, in order.

    Frames that cannot be decoded are passed over. Raises KeyelabError when none is left.
    """
    targets = list(wanted.times_s or wanted.indices)
    before: tuple[int, float, Any] | None = None
    taken = -1
    for index, frame in enumerate(_decoded(info)):
        place = frame.time - info.start_s if wanted.times_s else float(index)
        while targets and place >= targets[0]:
            nearest = (index, place, frame)
            if before and targets[0] - before[1] <= place - targets[0]:
                nearest = before
            target = targets.pop(0)
            if nearest[0] > taken:
                taken = nearest[0]
                yield _picture(nearest, target, wanted)
        if not targets:
            return
        before = (index, place, frame)
    if before is None:
        raise KeyelabError(
            f"expected {wanted.count} frames from {shown(info.path)}, none could be decoded",
            f"ffmpeg -v error -i {shown(info.path)} -f null -",
        )
    if targets and before[0] > taken:
        yield _picture(before, targets[0], wanted)


def coverage(times_s: list[float | None], wanted: Plan, duration_s: float | None) -> float | None:
    """Share of the duration that the frames stand for: (last − first + T/N) / T, at most 1."""
    known = [time for time in times_s if time is not None]
    if not known or not duration_s or not wanted.count:
        return None
    return min(1.0, (max(known) - min(known) + duration_s / wanted.count) / duration_s)


def _picture(chosen: tuple[int, float, Any], target: float, wanted: Plan) -> Picture:
    import numpy

    index, place, frame = chosen
    turned = numpy.rot90(frame.to_ndarray(format="rgb24"), k=round(frame.rotation / 90) % 4)
    timed = bool(wanted.times_s)
    return Picture(
        index=index,
        requested_s=round(float(target), 3) if timed else None,
        time_s=round(place, 3) if timed else None,
        rgb=numpy.ascontiguousarray(turned),
    )


def _decoded(info: VideoInfo) -> Iterator[Any]:
    """Every frame that decodes, in presentation order."""
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
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                continue
            for frame in frames:
                if info.duration_s is None or frame.time is not None:
                    yield frame
