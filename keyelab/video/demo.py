"""Demo clips whose truth is known: one coloured shape on a dark ground, and what happens to it.

The packaged demo model was trained on such pictures and answers in the words of `Story.caption`.
A story with `then` has something that happens later, at the share `at` of the clip: who looks at
the beginning only cannot know it.
"""

from __future__ import annotations

import io
import random
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyelab.errors import UsageError
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
_FORMATS = {
    ".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm", ".avi": "avi",
}  # fmt: skip
_BITS_A_PIXEL = 400_000 / 12 / 96**2  # enough that no codec here blurs a shape of this size


@dataclass(frozen=True)
class Story:
    """What a clip shows, in the words of the demo model.

    `then`: another motion ("left") or another colour ("blue"), from the share `at` (0 to 1) on.
    """

    colour: str = "red"
    shape: str = "circle"
    motion: str = "right"
    then: str = ""
    at: float = 0.5

    @property
    def caption(self) -> str:
        """The true answer to 'What happens in these pictures?'."""
        end = "stays still" if self.motion == "still" else f"moves {self.motion}"
        if self.then in COLOURS:
            end += f", then turns {self.then}"
        elif self.then:
            end += f", then moves {self.then}" if self.motion == "still" else f", then {self.then}"
        return f"a {self.colour} {self.shape} {end}"

    def colour_at(self, share: float) -> str:
        return self.then if self.then in COLOURS and share >= self.at else self.colour

    def place_at(self, share: float) -> tuple[float, float]:
        """How far the shape is from the middle of its path, in lengths of one motion."""
        return _middled(self._gone(share), [self._gone(one) for one in (0.0, self.at, 1.0)])

    def _gone(self, share: float) -> tuple[float, float]:
        (x, y), (then_x, then_y) = MOTIONS[self.motion], MOTIONS.get(self.then, (0, 0))
        if self.then not in MOTIONS:
            return x * share, y * share
        first, second = min(1.0, share / self.at), max(0.0, (share - self.at) / (1 - self.at))
        return x * first + then_x * second, y * first + then_y * second


@dataclass(frozen=True)
class Film:
    """How a story is drawn and stored.

    `width` and `height` (px) and `rate` (frames/s) are those of the picture as it is shown.
    `radius` and `travel` are shares of its shorter side, `shift` moves the path by shares of the
    room that is left (-1 to 1). `rotation_deg`: stored turned, with the mark that turns it back
    (MP4 and MOV). `variable`: frames are left out here and there, the others keep their times (not
    in AVI, which stores none).
    """

    width: int = 96
    height: int = 96
    rate: int = 12
    duration_s: float = 4.0
    codec: str = "libx264"
    rotation_deg: int = 0
    variable: bool = False
    ground: int = 40
    radius: float = 0.125
    travel: float = 0.5
    shift: tuple[float, float] = (0.0, 0.0)

    def times(self) -> list[Fraction]:
        """When each frame is shown, in seconds."""
        count = round(self.duration_s * self.rate)
        dice = random.Random(count)
        kept = [
            number
            for number in range(count)
            if not self.variable or number in (0, count - 1) or dice.random() < 0.6
        ]
        return [Fraction(number, self.rate) for number in kept]


def make_clip(path: Path, story: Story, film: Film | None = None) -> Path:
    """Write the clip to `path`; its suffix names the container. Equal wishes give equal bytes.

    OpenCV draws and PyAV encodes: OpenCV's own writer has no H.264 in its wheels.
    """
    import av

    film = film or Film()
    _check(path, film)
    try:
        content = _encoded(path, story, film)
    except (ValueError, av.FFmpegError) as error:
        raise UsageError(
            f"expected a codec and a size that {path.suffix} can hold, found {film.codec}, "
            f"{film.width} × {film.height} px: {error}",
            "libx264 in .mp4 and libvpx-vp9 in .webm hold even sizes",
        ) from None
    if film.rotation_deg % 360:
        _mark_turned(content, film.rotation_deg // 90 % 4)
    return write_bytes(path, bytes(content))


def _encoded(path: Path, story: Story, film: Film) -> bytearray:
    import av

    buffer = io.BytesIO()
    turns = film.rotation_deg // 90
    with av.open(buffer, "w", format=_FORMATS[path.suffix], options={"fflags": "bitexact"}) as clip:
        stream: Any = clip.add_stream(film.codec, rate=film.rate)
        stream.width, stream.height = (film.width, film.height)[:: -1 if turns % 2 else 1]
        stream.pix_fmt = "yuvj420p" if film.codec == "mjpeg" else "yuv420p"
        stream.bit_rate = round(_BITS_A_PIXEL * film.width * film.height * film.rate)
        stream.codec_context.time_base = stream.time_base = Fraction(1, film.rate)
        if film.variable:
            stream.codec_context.max_b_frames = 0  # MP4 would give the last frame another's length
        times = film.times()
        for time_s in times:
            frame = av.VideoFrame.from_ndarray(
                _stored(draw(story, float(time_s / times[-1]) if times[-1] else 0.0, film), turns),
                format="rgb24",
            )
            frame.time_base, frame.pts = Fraction(1, film.rate), round(time_s * film.rate)
            clip.mux(stream.encode(frame))
        clip.mux(stream.encode())
    return bytearray(buffer.getvalue())


def draw(story: Story, share: float, film: Film | None = None) -> Any:
    """The RGB picture (height × width × 3, uint8) at a share (0 to 1) of the story."""
    import cv2
    import numpy

    film = film or Film()
    size = numpy.array([film.width, film.height])
    canvas = numpy.full((film.height, film.width, 3), film.ground, numpy.uint8)
    side = float(size.min())
    corners = (
        numpy.array([story.place_at(one) for one in (0.0, story.at, 1.0)]) * film.travel * side
    )
    room = size / 2 - numpy.abs(corners).max(0) - film.radius * side - 1
    middle = size / 2 + numpy.array(film.shift) * room.clip(0)
    place = middle + numpy.array(story.place_at(share)) * film.travel * side
    # OpenCV's fixed point: 4 fractional bits
    x, y = (round(16 * float(one)) for one in place)
    r = round(16 * film.radius * side)
    colour = COLOURS[story.colour_at(share)]
    paint: dict[str, Any] = {"color": colour, "lineType": cv2.LINE_AA, "shift": 4}
    if story.shape == "circle":
        return cv2.circle(canvas, (x, y), r, thickness=-1, **paint)
    outline = {
        "square": [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        "triangle": [(x, y - r), (x + r, y + r), (x - r, y + r)],
    }[story.shape]
    return cv2.fillPoly(canvas, [numpy.array(outline, numpy.int32)], **paint)


def _middled(place: tuple[float, float], path: list[tuple[float, float]]) -> tuple[float, float]:
    (low_x, high_x), (low_y, high_y) = ((min(one), max(one)) for one in zip(*path, strict=True))
    return place[0] - (low_x + high_x) / 2, place[1] - (low_y + high_y) / 2


def _check(path: Path, film: Film) -> None:
    if path.suffix not in _FORMATS:
        raise UsageError(
            f"expected a file name that ends in {', '.join(_FORMATS)}, found {path.name}",
            "name the demo clip demo.mp4",
        )
    if film.rotation_deg % 90 or (film.rotation_deg % 360 and path.suffix not in (".mp4", ".mov")):
        raise UsageError(
            f"expected a rotation of 0, 90, 180 or 270 in MP4 or MOV, found {film.rotation_deg} "
            f"in {path.name}",
            "leave rotation_deg at 0, or name the clip demo.mp4",
        )
    if film.variable and path.suffix == ".avi":
        raise UsageError(
            f"expected a container that stores times, found {path.name} for a variable rate",
            "name the clip demo.mp4",
        )


def _stored(picture: Any, turns: int) -> Any:
    """A picture turned against the direction in which the player will turn it."""
    import numpy

    return numpy.ascontiguousarray(numpy.rot90(picture, turns))


def _mark_turned(content: bytearray, turns: int) -> None:
    """Set the display matrix in the track header: so many quarter turns clockwise.

    PyAV cannot write it. ISO/IEC 14496-12, 8.3.2: nine 32-bit numbers after 40 bytes of the box.
    """
    across, down = {1: (0, 1), 2: (-1, 0), 3: (0, -1)}[turns]
    start = content.index(b"tkhd") + 44
    matrix = [across << 16, down << 16, 0, -down << 16, across << 16, 0, 0, 0, 1 << 30]
    content[start : start + 36] = struct.pack(">9i", *matrix)
