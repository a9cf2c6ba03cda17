"""What a video is: codec, size and the time of each frame, from its packets.

Containers state frame counts, rates and durations that are missing or wrong (0, NaN, 1000 fps, a
count of -1.9e14). Every packet is looked at once, undecoded: time stamps that are all there and
all different say when each frame is shown; otherwise times are unknown and frames only counted.
The first frame is decoded, because only it says how the picture is turned.
"""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.video import folder, packets
from keyelab.video.packets import Packet

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

    `width` and `height` are those of the upright picture, in px, and `rotation_deg` (0, 90, 180 or
    270) turns the stored one counterclockwise to it. `stamped` says whether a decoded frame carries
    its own time stamp; in AVI with B-frames it carries another's. `files` are a folder's pictures.
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
    rotation_deg: int = 0
    packets: tuple[Packet, ...] = ()
    stamped: bool = True
    files: tuple[Path, ...] = ()

    @cached_property
    def times_s(self) -> Any:
        """When each frame is shown, seconds from the first one (float64 array); may be empty."""
        import numpy

        stamps = numpy.array(self.stamps, numpy.int64)
        return (stamps - stamps[:1]) * self.tick_s

    @cached_property
    def places(self) -> dict[int | None, int]:
        """Where in the file the packet of each time stamp stands, counted from 0."""
        return {packet.stamp: place for place, packet in enumerate(self.packets)}


def probe(path: Path) -> VideoInfo:
    """Read what a video file or a folder of pictures is.

    Raises KeyelabError: no file, 0 bytes, Git LFS pointer, web page, an MP4 without its index, not
    a video, no video stream, no frames; a folder without pictures or with one that is none.
    """
    import av

    if path.is_dir():
        return _of_folder(path)
    if not path.is_file():
        raise KeyelabError(
            f"expected a video at {shown(path)}, found no file there",
            "set video_test.video to an existing file; empty makes a demo clip",
        )
    try:
        with packets.opened(path) as container:
            stream = packets.stream_of(container)
            if stream is None:
                kinds = sorted({other.type for other in container.streams if other.type != "video"})
                raise KeyelabError(
                    f"expected a video stream in {shown(path)}, found {', '.join(kinds) or 'none'}",
                    "set video_test.video to a file with pictures",
                )
            codec = stream.codec_context
            found, first = packets.scan(container, stream)
            seen = [(packet.stamp, packet.duration) for packet in found if packet.is_shown]
            if codec is None or not seen:
                raise undecodable(path, codec.name if codec else "unknown")
            picture = first or codec
            turns = round(first.rotation / 90) % 4 if first else 0
            size = (picture.width, picture.height)
            stamps, length = packets.clock(seen)
            tick_s = float(stream.time_base or 0)
            return VideoInfo(
                path=path,
                container=container.format.name,
                codec=codec.name,
                width=size[turns % 2],
                height=size[1 - turns % 2],
                frames=len(seen),
                stamps=stamps,
                tick_s=tick_s,
                duration_s=length * tick_s or None,
                stated_duration_s=container.duration / 1e6 if container.duration else None,
                rotation_deg=90 * turns,
                packets=tuple(found),
                stamped=not codec.has_b_frames or packets.stamped(path, found),
            )
    except av.error.FFmpegError:
        raise _unreadable(path) from None


def rows(info: VideoInfo) -> list[dict[str, Any]]:
    """The facts of a video as table rows."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(info.stamps)]
    steady = not gaps or max(gaps) <= 1.5 * min(gaps)
    rate = info.duration_s and f"{info.frames / info.duration_s:.2f}"
    facts = {
        "file": shown(info.path),
        "container and codec": f"{info.container}, {info.codec}",
        "picture": f"{info.width} × {info.height} px"
        + (f", stored turned by {info.rotation_deg}°" if info.rotation_deg else ""),
        "duration (s)": info.duration_s,
        "duration stated (s)": info.stated_duration_s,
        "frames": info.frames,
        "frames per second": rate and f"{rate}, {'constant' if steady else 'variable'}",
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def undecodable(path: Path, codec: str) -> KeyelabError:
    """No frame of the video can be decoded."""
    name = shlex.quote(shown(path))
    if codec == "webp":  # FFmpeg reads pictures of this kind, not animations
        command = f"magick {name} new.gif"
    else:
        command = f"ffmpeg -i {name} -c:v libx264 -pix_fmt yuv420p new.mp4"
    return KeyelabError(
        f"expected frames of {shown(path)} to decode, found none that do (codec {codec})",
        f"convert it: {command}",
    )


def _of_folder(path: Path) -> VideoInfo:
    """The pictures of a folder as a video of unknown times, as large as the first of them."""
    files = folder.pictures(path)
    height, width = folder.read(files[0]).shape[:2]
    return VideoInfo(
        path=path,
        container=folder.KIND,
        codec=", ".join(sorted({file.suffix.lower().lstrip(".") for file in files})),
        width=width,
        height=height,
        frames=len(files),
        stamps=(),
        tick_s=0.0,
        duration_s=None,
        stated_duration_s=None,
        files=files,
    )


def _unreadable(path: Path) -> KeyelabError:
    """Why FFmpeg cannot open a file."""
    with path.open("rb") as stream:
        head = stream.read(64)
    found, remedy = next(
        (found, remedy) for start, found, remedy in _KINDS if re.match(start, head, re.DOTALL)
    )
    return KeyelabError(f"expected a video in {shown(path)}, found {found}", remedy)
