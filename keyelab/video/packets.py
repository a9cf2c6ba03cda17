"""The packets of a video stream, looked at once and undecoded: what stands where and when."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Packet(NamedTuple):
    """One packet in file order: time stamps and duration in ticks, and what it is good for."""

    stamp: int | None
    dts: int | None
    duration: int | None
    is_key: bool
    is_shown: bool


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file opened by PyAV.

    `file:` keeps a name with a colon, a percent or a leading dash a name, and the white list keeps
    a playlist in disguise from reaching the network.
    """
    import av

    words: dict[str, Any] = {"container_options": {"protocol_whitelist": "file"}}
    if int(av.__version__.split(".")[0]) < 19:  # 19 took the option away
        words["metadata_errors"] = "replace"
    with av.open(f"file:{path.absolute()}", **words) as source:
        yield source


def stream_of(container: Any) -> Any:
    """The video stream that FFmpeg, and so OpenCV, prefers; None where a cover is all there is."""
    from av.stream import Disposition

    stream = container.streams.best("video")
    return None if stream and stream.disposition & Disposition.attached_pic else stream


def scan(container: Any, stream: Any) -> tuple[list[Packet], Any]:
    """Every packet in file order, and the first frame that decodes, or None."""
    import av

    found: list[Packet] = []
    first = None
    with contextlib.suppress(av.error.FFmpegError):  # a cut file holds what was read so far
        for packet in container.demux(stream):
            if packet.size:
                words = (packet.pts, packet.dts, packet.duration)
                found.append(Packet(*words, packet.is_keyframe, not packet.is_discard))
            if first is None and stream.codec_context:
                with contextlib.suppress(av.error.FFmpegError):
                    first = next(iter(packet.decode()), None)
    return found, first


def clock(packets: Sequence[tuple[int | None, int | None]]) -> tuple[tuple[int, ...], float]:
    """Sorted time stamps and total duration, from each packet's (time stamp, duration), in ticks.

    The last frame stands as long as it says, else as long as the median one; also where frames are
    stored in another order, for MP4 gives durations in that. Stamps that are missing, equal or
    alone without a duration give () and 0.
    """
    order = [stamp for stamp, _ in packets if stamp is not None]
    stamps = sorted({*order})
    if not stamps or len(stamps) < len(packets):
        return (), 0.0
    gaps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    own = dict(packets)[stamps[-1]] if order == stamps else None
    last = own or (statistics.median(gaps) if gaps else 0)
    return (tuple(stamps), float(stamps[-1] - stamps[0] + last)) if last > 0 else ((), 0.0)


def stamped(path: Path, packets: Sequence[Packet]) -> bool:
    """Whether frames decode in the order of their time stamps, which B-frames need to be mixed."""
    import av

    order = [packet.stamp for packet in packets if packet.stamp is not None]
    if order != sorted(order):
        return True
    with opened(path) as container, contextlib.suppress(av.error.FFmpegError):
        frames = itertools.islice(container.decode(stream_of(container)), 48)
        seen = [frame.pts for frame in frames if frame.pts is not None]
        return seen == sorted(seen)
    return True
