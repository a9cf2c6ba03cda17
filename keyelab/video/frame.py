"""A frame as it is sent: JPEG bytes that are the same every time.

Equal bytes let the server's prompt cache recognise a frame; a data URI needs no file server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from keyelab.params import VideoTest
from keyelab.video import tokens
from keyelab.video.decode import take
from keyelab.video.probe import VideoInfo, undecodable
from keyelab.video.sample import Pick, plan


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


def sampled(
    info: VideoInfo,
    params: VideoTest,
    *,
    tile_px: int,
    most: int | None = None,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> tuple[list[Pick], list[Frame]]:
    """The frames that the parameters ask for, `most` at most: what was chosen, what decoded."""
    picks = plan(
        info,
        fps=params.fps,
        max_frames=most or params.max_frames,
        times_s=params.times_s,
        sampling=params.sampling,
    )
    return picks, collect(info, picks, params, tile_px=tile_px, on_progress=on_progress)


def collect(
    info: VideoInfo,
    picks: Sequence[Pick],
    params: VideoTest,
    *,
    tile_px: int,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> list[Frame]:
    """Decode, scale and encode the picked frames, one at a time: memory holds only JPEGs.

    `tile_px` turns `frame_max_tokens` into pixels. Raises KeyelabError when none can be decoded.
    """
    limit = partial(
        tokens.fit, max_px=params.frame_max_px, max_tokens=params.frame_max_tokens, tile=tile_px
    )
    side = min(limit(params.frame_size_px, params.frame_size_px)) if params.frame_size_px else 0
    fit = partial(inside, side=side) if side else limit
    frames: list[Frame] = []
    for pick, rgb in take(info, picks, fit=fit, decoder=params.decoder):
        picture = square(rgb, side) if side else rgb
        frames.append(encode(picture, pick, len(frames) + 1, params.jpeg_quality))
        on_progress(len(frames) / len(picks), f"frame {len(frames)} of {len(picks)}")
    if not frames:
        raise undecodable(info.path, info.codec)
    return frames


def encode(rgb: Any, pick: Pick, number: int, jpeg_quality: int) -> Frame:
    """JPEG of an RGB picture (height × width × 3, uint8)."""
    import cv2

    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality])
    height, width = rgb.shape[:2]
    return Frame(number, pick, data.tobytes(), width, height)


def inside(width: int, height: int, side: int) -> tuple[int, int]:
    """The size of a picture that fills a square of `side` px, its proportions kept."""
    scale = side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def square(rgb: Any, side: int) -> Any:
    """`rgb`, no larger than `side` px either way, in the middle of a black square."""
    import cv2

    height, width = rgb.shape[:2]
    top, left = (side - height) // 2, (side - width) // 2
    edges = (top, side - height - top, left, side - width - left)
    return cv2.copyMakeBorder(rgb, *edges, cv2.BORDER_CONSTANT)


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
