"""A frame as it is sent: square when asked, JPEG bytes that are the same every time.

Equal bytes let the server's prompt cache recognise a frame; a data URI needs no file server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import FileFact, FrameFact
from keyelab.files import sha256_file, shown
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Picture, Plan, take


@dataclass(frozen=True)
class Frame:
    """One encoded frame: number from 1, place in the video (None unknown), JPEG, size in px."""

    number: int
    index: int
    requested_s: float | None
    time_s: float | None
    jpeg: bytes
    width: int
    height: int

    @property
    def data_uri(self) -> str:
        """The frame for an image_url part."""
        return "data:image/jpeg;base64," + base64.b64encode(self.jpeg).decode()


def collect(
    info: VideoInfo,
    wanted: Plan,
    *,
    size_px: int,
    jpeg_quality: int,
    on_progress: Callable[[float | None, str], None] | None = None,
) -> list[Frame]:
    """Decode and encode the wanted frames, one at a time so that memory holds only JPEGs."""
    frames = []
    for number, picture in enumerate(take(info, wanted), 1):
        frames.append(encode(picture, number, size_px=size_px, jpeg_quality=jpeg_quality))
        if on_progress:
            on_progress(min(1.0, number / wanted.count), f"frame {number} of {wanted.count}")
    return frames


def encode(picture: Picture, number: int, *, size_px: int, jpeg_quality: int) -> Frame:
    """JPEG of a picture, fitted into a square of `size_px` (0 keeps its size).

    Raises UsageError for a quality outside 1 to 100 or a negative size.
    """
    import cv2

    if not 1 <= jpeg_quality <= 100 or size_px < 0:
        raise UsageError(
            "expected jpeg_quality from 1 to 100 and frame_size_px of at least 0, "
            f"found {jpeg_quality} and {size_px}",
            "set video_test.jpeg_quality and video_test.frame_size_px",
        )
    rgb = square(picture.rgb, size_px) if size_px else picture.rgb
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality])
    if not done:
        raise KeyelabError(f"frame {number} could not be encoded as JPEG", "lower frame_size_px")
    height, width = rgb.shape[:2]
    return Frame(
        number=number,
        index=picture.index,
        requested_s=picture.requested_s,
        time_s=picture.time_s,
        jpeg=data.tobytes(),
        width=width,
        height=height,
    )


def square(rgb: Any, size_px: int) -> Any:
    """`rgb` scaled to fit a square of `size_px`, its proportions kept, padded with black."""
    import cv2
    import numpy

    height, width = rgb.shape[:2]
    if (height, width) == (size_px, size_px):
        return rgb
    scale = size_px / max(height, width)
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    scaled = cv2.resize(rgb, inner, interpolation=method)
    canvas = numpy.zeros((size_px, size_px, 3), numpy.uint8)
    left, top = (size_px - inner[0]) // 2, (size_px - inner[1]) // 2
    canvas[top : top + inner[1], left : left + inner[0]] = scaled
    return canvas


def rows(frames: list[Frame]) -> list[dict[str, Any]]:
    """The frames as table rows."""
    return [
        {
            "frame": frame.number,
            "index in the video": frame.index,
            "requested (s)": frame.requested_s,
            "obtained (s)": frame.time_s,
            "size": f"{frame.width} × {frame.height} px",
            "JPEG (bytes)": len(frame.jpeg),
        }
        for frame in frames
    ]


def facts(info: VideoInfo, frames: list[Frame], share: float | None) -> dict[str, Any]:
    """What VideoFacts keeps of the video and its frames; `share` is the coverage (0 to 1)."""
    return {
        "video": FileFact(
            path=shown(info.path),
            sha256=sha256_file(info.path),
            size_bytes=info.path.stat().st_size,
        ),
        "duration_s": info.duration_s,
        "coverage": share,
        "frames": [
            FrameFact(
                index=frame.index,
                requested_s=frame.requested_s,
                time_s=frame.time_s,
                jpeg_bytes=len(frame.jpeg),
            )
            for frame in frames
        ],
    }
