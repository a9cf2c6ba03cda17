"""Demo clips whose truth is known: one coloured shape that moves, or stays, on a dark ground.

The packaged demo model was trained on such frames (96 × 96 px, radius 9 to 16 px, grey ground
0 to 80, displacement of at least 35 % of the free span) and answers in the words of `caption`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.files import write_bytes

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 190, 50),
    "blue": (45, 70, 225),
    "yellow": (230, 215, 45),
    "white": (235, 235, 235),
}
SHAPES = ("circle", "square", "triangle")
MOTIONS = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1), "still": (0, 0)}
_SIZE_PX, _RADIUS_PX, _TRAVEL_PX, _GROUND = 96, 12, 48, 40
_FRAMES, _FPS = 48, 12


@dataclass(frozen=True)
class Story:
    """What a clip shows, in the words of the demo model."""

    colour: str = "red"
    shape: str = "circle"
    motion: str = "right"

    @property
    def caption(self) -> str:
        """The true answer to 'What happens in these pictures?'."""
        end = "stays still" if self.motion == "still" else f"moves {self.motion}"
        return f"a {self.colour} {self.shape} {end}"


def make_clip(path: Path, story: Story) -> Path:
    """Write four seconds of H.264 in MP4 to `path`; the same story gives the same bytes.

    OpenCV draws and PyAV encodes: OpenCV's own writer has no H.264 in its wheels.
    """
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=_FPS)
        stream.width = stream.height = _SIZE_PX
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 400_000
        for number in range(_FRAMES):
            picture = draw(story, number / (_FRAMES - 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return write_bytes(path, buffer.getvalue())


def draw(story: Story, share: float) -> Any:
    """The RGB picture (96 × 96 × 3, uint8) at a share (0 to 1) of the story."""
    import cv2
    import numpy

    canvas = numpy.full((_SIZE_PX, _SIZE_PX, 3), _GROUND, numpy.uint8)
    along = (share - 0.5) * _TRAVEL_PX
    # OpenCV's fixed point: 4 fractional bits
    x, y = (round(16 * (_SIZE_PX / 2 + step * along)) for step in MOTIONS[story.motion])
    r = 16 * _RADIUS_PX
    paint: dict[str, Any] = {"color": COLOURS[story.colour], "lineType": cv2.LINE_AA, "shift": 4}
    if story.shape == "circle":
        return cv2.circle(canvas, (x, y), r, thickness=-1, **paint)
    corners = {
        "square": [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        "triangle": [(x, y - r), (x + r, y + r), (x - r, y + r)],
    }[story.shape]
    return cv2.fillPoly(canvas, [numpy.array(corners, numpy.int32)], **paint)
