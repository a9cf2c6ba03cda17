"""Demo clips whose truth is known: one coloured shape that moves, or stays, on a dark ground.

The packaged demo model was trained on such frames (96 × 96 px, radius 9 to 16 px, grey ground
0 to 80, displacement of at least 35 % of the free span) and answers in the words of `caption`.
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import UsageError
from keyelab.files import located, write_bytes

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 190, 50),
    "blue": (45, 70, 225),
    "yellow": (230, 215, 45),
    "white": (235, 235, 235),
}
SHAPES = ("circle", "square", "triangle")
MOTIONS = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1), "still": (0, 0)}
_TRAVEL = (0.55, 0.85)


@dataclass(frozen=True)
class Story:
    """What a clip shows, in the words of the demo model."""

    colour: str = "red"
    shape: str = "circle"
    motion: str = "right"

    def __post_init__(self) -> None:
        for word, known in (
            (self.colour, tuple(COLOURS)),
            (self.shape, SHAPES),
            (self.motion, tuple(MOTIONS)),
        ):
            if word not in known:
                raise UsageError(f"expected one of {', '.join(known)} in a demo clip, found {word}")

    @property
    def caption(self) -> str:
        """The true answer to 'What happens in these pictures?'."""
        end = "stays still" if self.motion == "still" else f"moves {self.motion}"
        return f"a {self.colour} {self.shape} {end}"


def obtain(video: str, workdir: Path) -> Path:
    """The video that a parameter names; without a name a red circle that moves right is made."""
    if video:
        return located(video)
    story = Story()
    name = f"{story.caption.replace(' ', '-')}.mp4"
    return make_clip(workdir / "videos" / name, story)


def make_clip(
    path: Path,
    story: Story,
    *,
    duration_s: float = 4.0,
    fps: int = 12,
    size_px: int = 96,
    seed: int = 0,
) -> Path:
    """Write an MP4 of `story` to `path`; the same input gives the same bytes.

    H.264 where PyAV's FFmpeg can encode it, else MPEG-4 part 2 (mp4v). OpenCV draws and PyAV
    encodes: OpenCV's own writer has no H.264 in its wheels and prints its failure.
    """
    import av

    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=fps)
        stream.width = stream.height = size_px
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 400_000
        for picture in pictures(story, round(duration_s * fps), size_px=size_px, seed=seed):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return write_bytes(path, buffer.getvalue())


def pictures(story: Story, count: int, *, size_px: int = 96, seed: int = 0) -> list[Any]:
    """`count` RGB pictures (size_px × size_px × 3, uint8) of the story, first to last."""
    import numpy

    dice = random.Random(f"{story.caption} {seed}")
    radius = max(2, round(size_px * dice.uniform(0.115, 0.145)))
    ground = dice.randint(20, 60)
    free = size_px - 2 * radius - 4
    travel = free * dice.uniform(*_TRAVEL)
    side = dice.uniform(-0.15, 0.15) * free
    step_x, step_y = MOTIONS[story.motion]
    aside = (side if step_y else 0.0, side if step_x else 0.0)
    shown = []
    for number in range(count):
        along = (number / max(1, count - 1) - 0.5) * travel
        x = size_px / 2 + step_x * along + aside[0]
        y = size_px / 2 + step_y * along + aside[1]
        canvas = numpy.full((size_px, size_px, 3), ground, numpy.uint8)
        _draw(canvas, story, (x, y), radius)
        shown.append(canvas)
    return shown


def _draw(canvas: Any, story: Story, centre: tuple[float, float], radius: int) -> None:
    import cv2
    import numpy

    x, y = (round(value * 16) for value in centre)  # OpenCV's fixed point: 4 fractional bits
    r = radius * 16
    paint: dict[str, Any] = {"color": COLOURS[story.colour], "lineType": cv2.LINE_AA, "shift": 4}
    if story.shape == "circle":
        cv2.circle(canvas, (x, y), r, thickness=-1, **paint)
        return
    corners = {
        "square": [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        "triangle": [(x, y - r), (x + r, y + r), (x - r, y + r)],
    }[story.shape]
    cv2.fillPoly(canvas, [numpy.array(corners, numpy.int32)], **paint)
