"""A frame as it is sent: square when asked, JPEG bytes that are the same every time.

Equal bytes let the server's prompt cache recognise a frame; a data URI needs no file server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.video.probe import VideoInfo, undecodable
from keyelab.video.sample import Pick, take


@dataclass(frozen=True)
class Frame:
    """One encoded frame: number from 1, place in the video, JPEG, size in px."""

    number: int
    pick: Pick
    jpeg: bytes
    width: int
    height: int

    @property
    def data_uri(self) -> str:
        """The frame for an image_url part."""
        return "data:image/jpeg;base64," + base64.b64encode(self.jpeg).decode()


def collect(
    info: VideoInfo,
    picks: Sequence[Pick],
    *,
    size_px: int,
    jpeg_quality: int,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> list[Frame]:
    """Decode and encode the picked frames, one at a time so that memory holds only JPEGs.

    Raises KeyelabError when none of them can be decoded.
    """
    frames: list[Frame] = []
    for pick, rgb in take(info, picks):
        frames.append(encode(rgb, pick, len(frames) + 1, size_px, jpeg_quality))
        on_progress(len(frames) / len(picks), f"frame {len(frames)} of {len(picks)}")
    if not frames:
        raise undecodable(info.path, info.codec)
    return frames


def encode(rgb: Any, pick: Pick, number: int, size_px: int, jpeg_quality: int) -> Frame:
    """JPEG of a picture, fitted into a square of `size_px` (0 keeps its size)."""
    import cv2

    if size_px:
        rgb = square(rgb, size_px)
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality])
    height, width = rgb.shape[:2]
    return Frame(number, pick, data.tobytes(), width, height)


def square(rgb: Any, size_px: int) -> Any:
    """`rgb` scaled to fit a square of `size_px`, its proportions kept, padded with black."""
    import cv2

    scale = size_px / max(rgb.shape[:2])
    height, width = (max(1, round(side * scale)) for side in rgb.shape[:2])
    top, left = (size_px - height) // 2, (size_px - width) // 2
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return cv2.copyMakeBorder(
        cv2.resize(rgb, (width, height), interpolation=method),
        top,
        size_px - height - top,
        left,
        size_px - width - left,
        cv2.BORDER_CONSTANT,
    )


def coverage(info: VideoInfo, asked: int, frames: Sequence[Frame]) -> float | None:
    """Share of the duration that frames stand for: (last - first + T/asked) / T, at most 1."""
    known = [frame.pick.time_s for frame in frames if frame.pick.time_s is not None]
    if not known or not info.duration_s:
        return None
    return min(1.0, (max(known) - min(known)) / info.duration_s + 1 / asked)


def rows(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    """The frames as table rows."""
    return [
        {
            "frame": frame.number,
            "index in the video": frame.pick.index,
            "requested (s)": frame.pick.requested_s,
            "obtained (s)": frame.pick.time_s,
            "size": f"{frame.width} × {frame.height} px",
            "JPEG (bytes)": len(frame.jpeg),
        }
        for frame in frames
    ]
