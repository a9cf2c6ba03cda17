"""What a video file is: codec, size, rate and duration, read from its packets, not its promises.

Containers state frame counts, rates and durations that are missing or wrong (0, NaN, 1000 fps, a
count of -1.9e14). Every packet is looked at once, undecoded: time stamps that are there and
strictly increase give duration and rate; otherwise both are None and frames are only counted.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.video.refusal import refuse_early, undecodable, unreadable


@dataclass(frozen=True)
class VideoInfo:
    """A video that can be opened and decoded; None is unknown.

    `start_s` is the first frame's time stamp and `duration_s` runs from it to the end of the last
    frame; `stated_duration_s` is the container's own word. `rotation_deg` is counterclockwise.
    """

    path: Path
    container: str
    codec: str
    width: int
    height: int
    frames: int
    fps: float | None
    duration_s: float | None
    start_s: float
    stated_duration_s: float | None
    variable_rate: bool | None
    rotation_deg: int


@dataclass(frozen=True)
class Clock:
    """The frame times of a file (seconds), or why they cannot be used (all None)."""

    start_s: float = 0.0
    duration_s: float | None = None
    fps: float | None = None
    variable_rate: bool | None = None


def probe(path: Path) -> VideoInfo:
    """Read what a video file is and prove that its first frame decodes.

    Raises KeyelabError: not there, 0 bytes, Git LFS pointer, no index (moov), not a video, no
    video stream, a codec that this PyAV cannot decode.
    """
    import av

    refuse_early(path)
    try:
        with opened(path) as container:
            stream = _video_stream(path, container)
            first = _first_frame(path, container, stream)
            codec = stream.codec_context.name
            kind = container.format.name
            stated_s = container.duration / 1_000_000 if (container.duration or 0) > 0 else None
            width, height, rotation = first.width, first.height, int(first.rotation)
        with opened(path) as container:
            stream = _video_stream(path, container)
            stamps, last_s = _stamps(container, stream)
    except av.error.FFmpegError as error:
        raise unreadable(path, error) from None
    clock = read_clock(stamps, last_s)
    return VideoInfo(
        path=path,
        container=kind,
        codec=codec,
        width=width,
        height=height,
        frames=len(stamps),
        fps=clock.fps,
        duration_s=clock.duration_s,
        start_s=clock.start_s,
        stated_duration_s=stated_s,
        variable_rate=clock.variable_rate,
        rotation_deg=rotation,
    )


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file opened by PyAV.

    `file:` keeps a name with a colon, a percent or a leading dash a name, and the white list keeps
    a playlist in disguise from reaching the network.
    """
    import av

    options = {"protocol_whitelist": "file"}
    with av.open(f"file:{path.absolute()}", options=options, metadata_errors="replace") as source:
        yield source


def read_clock(stamps: list[float | None], last_s: float | None) -> Clock:
    """Start, duration and rate from the packets' time stamps (seconds) in file order.

    `last_s` is the stated length of the last frame; without it the median spacing is taken.
    """
    times = sorted(stamp for stamp in stamps if stamp is not None)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    if not times or len(times) < len(stamps) or (gaps and min(gaps) <= 0):
        return Clock()
    spacing = statistics.median(gaps) if gaps else None
    length = last_s if last_s and last_s > 0 else spacing
    if length is None:
        return Clock(start_s=times[0])
    duration_s = times[-1] - times[0] + length
    variable = bool(gaps) and max(gaps) > 1.5 * min(gaps)
    return Clock(times[0], duration_s, len(times) / duration_s, variable)


def rows(info: VideoInfo) -> list[dict[str, Any]]:
    """The facts of a video as table rows."""
    rate = "variable" if info.variable_rate else "constant"
    facts = {
        "file": shown(info.path),
        "container and codec": f"{info.container}, {info.codec}",
        "picture": f"{info.width} × {info.height} px, rotated by {info.rotation_deg}°",
        "duration (s)": info.duration_s,
        "duration stated (s)": info.stated_duration_s,
        "frames": info.frames,
        "frames per second": None if info.fps is None else f"{info.fps:.2f}, {rate}",
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def _video_stream(path: Path, container: Any) -> Any:
    if not container.streams.video:
        kinds = sorted({stream.type for stream in container.streams})
        raise KeyelabError(
            f"expected a video stream in {shown(path)}, found {', '.join(kinds) or 'no stream'}",
            "set video_test.video to a file with pictures",
        )
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise undecodable(path, "unknown")
    return stream


def _first_frame(path: Path, container: Any, stream: Any) -> Any:
    import av

    packets = 0
    for packet in container.demux(stream):
        packets += packet.size > 0
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            continue
        if frames:
            return frames[0]
    if packets:
        raise undecodable(path, stream.codec_context.name)
    raise KeyelabError(
        f"expected frames in {shown(path)}, found a video stream without any",
        "set video_test.video to another file",
    )


def _stamps(container: Any, stream: Any) -> tuple[list[float | None], float | None]:
    """Presentation times (s) of the packets in file order, and the length of the last frame."""
    import av

    base = stream.time_base or Fraction(1)
    stamps: list[float | None] = []
    ends: dict[float, float] = {}
    try:
        for packet in container.demux(stream):
            if packet.size == 0 or packet.is_discard:
                continue
            stamp = None if packet.pts is None else float(packet.pts * base)
            stamps.append(stamp)
            if stamp is not None and packet.duration:
                ends[stamp] = float(packet.duration * base)
    except av.error.FFmpegError:
        pass  # a cut file: what was read so far is what it holds
    known = [stamp for stamp in stamps if stamp is not None]
    return stamps, ends.get(max(known)) if known else None
