"""What a video file is: codec, size and the time of each frame, from its packets.

Containers state frame counts, rates and durations that are missing or wrong (0, NaN, 1000 fps, a
count of -1.9e14). Every packet is looked at once, undecoded: time stamps that are all there and
all different say when each frame is shown; otherwise times are unknown and frames only counted.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown

_KINDS = (  # by a file's first bytes
    (rb"\Z", "0 bytes", "copy or record the file again"),
    (rb"version https://git-lfs", "a Git LFS pointer", "git lfs pull"),
    (rb"\s*<", "a web page", "download the file itself again"),
    (
        rb"....ftyp",
        "an MP4 without its index (moov), as an interrupted recording or copy leaves it",
        "copy the file again, or rebuild the index: untrunc good.mp4 broken.mp4",
    ),
    (rb"", "a file that FFmpeg cannot read", "set video_test.video to another file"),
)


@dataclass(frozen=True)
class VideoInfo:
    """A video that can be opened; None is unknown.

    `stamps` are the frames' time stamps in the order they are shown, in units of `tick_s` seconds;
    empty when they cannot be used. `duration_s` runs from the first frame to the end of the last;
    `stated_duration_s` is the container's own word.
    """

    path: Path
    container: str
    codec: str
    width: int
    height: int
    frames: int
    stamps: tuple[int, ...]
    tick_s: float
    duration_s: float | None
    stated_duration_s: float | None


def probe(path: Path) -> VideoInfo:
    """Read what a video file is.

    Raises KeyelabError: no file, 0 bytes, Git LFS pointer, web page, an MP4 without its index, not
    a video, no video stream, no frames.
    """
    import av

    if not path.is_file():
        raise KeyelabError(
            f"expected a video at {shown(path)}, found no file there",
            "set video_test.video to an existing file; empty makes a demo clip",
        )
    try:
        with opened(path) as container:
            if not container.streams.video:
                kinds = sorted({stream.type for stream in container.streams})
                raise KeyelabError(
                    f"expected a video stream in {shown(path)}, found {', '.join(kinds) or 'none'}",
                    "set video_test.video to a file with pictures",
                )
            stream = container.streams.video[0]
            packets = _packets(container, stream)
            codec = stream.codec_context
            if codec is None or not packets:
                raise undecodable(path, codec.name if codec else "unknown")
            stamps, length = clock(packets)
            tick_s = float(stream.time_base or 0)
            return VideoInfo(
                path=path,
                container=container.format.name,
                codec=codec.name,
                width=codec.width,
                height=codec.height,
                frames=len(packets),
                stamps=stamps,
                tick_s=tick_s,
                duration_s=length * tick_s or None,
                stated_duration_s=container.duration / 1e6 if container.duration else None,
            )
    except av.error.FFmpegError:
        raise _unreadable(path) from None


def clock(packets: Sequence[tuple[int | None, int | None]]) -> tuple[tuple[int, ...], float]:
    """Sorted time stamps and total duration, from each packet's (time stamp, duration), in ticks.

    The last frame stands as long as it says, else as long as the median one. Stamps that are
    missing, equal or alone without a duration give () and 0.
    """
    stamps = sorted({stamp for stamp, _ in packets if stamp is not None})
    if not stamps or len(stamps) < len(packets):
        return (), 0.0
    gaps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    last = dict(packets)[stamps[-1]] or (statistics.median(gaps) if gaps else 0)
    return (tuple(stamps), float(stamps[-1] - stamps[0] + last)) if last > 0 else ((), 0.0)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file opened by PyAV.

    `file:` keeps a name with a colon, a percent or a leading dash a name, and the white list keeps
    a playlist in disguise from reaching the network.
    """
    import av

    words: dict[str, Any] = {"options": {"protocol_whitelist": "file"}}
    if int(av.__version__.split(".")[0]) < 19:  # 19 took the option away
        words["metadata_errors"] = "replace"
    with av.open(f"file:{path.absolute()}", **words) as source:
        yield source


def rows(info: VideoInfo) -> list[dict[str, Any]]:
    """The facts of a video as table rows."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(info.stamps)]
    steady = not gaps or max(gaps) <= 1.5 * min(gaps)
    rate = info.duration_s and f"{info.frames / info.duration_s:.2f}"
    facts = {
        "file": shown(info.path),
        "container and codec": f"{info.container}, {info.codec}",
        "picture": f"{info.width} × {info.height} px as stored",
        "duration (s)": info.duration_s,
        "duration stated (s)": info.stated_duration_s,
        "frames": info.frames,
        "frames per second": rate and f"{rate}, {'constant' if steady else 'variable'}",
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def undecodable(path: Path, codec: str) -> KeyelabError:
    """No frame of the video can be decoded."""
    return KeyelabError(
        f"expected frames of {shown(path)} to decode, found none that do (codec {codec})",
        f"convert it: ffmpeg -i {shlex.quote(shown(path))} -c:v libx264 -pix_fmt yuv420p new.mp4",
    )


def _packets(container: Any, stream: Any) -> list[tuple[int | None, int | None]]:
    """Time stamp and duration (ticks) of each packet, in file order."""
    import av

    found = []
    with contextlib.suppress(av.error.FFmpegError):  # a cut file holds what was read so far
        for packet in container.demux(stream):
            if packet.size and not packet.is_discard:
                found.append((packet.pts, packet.duration))
    return found


def _unreadable(path: Path) -> KeyelabError:
    """Why FFmpeg cannot open a file."""
    with path.open("rb") as stream:
        head = stream.read(64)
    found, remedy = next(
        (found, remedy) for start, found, remedy in _KINDS if re.match(start, head, re.DOTALL)
    )
    return KeyelabError(f"expected a video in {shown(path)}, found {found}", remedy)
