"""Videos made on the spot, whose frames carry their own number: as a grey level, or drawn in."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy
import pytest
from numbered import drawn_number, read_drawn

GREY_STEP = 5
SIZE = (96, 64)


def grey_frame(number: int, size: tuple[int, int] = SIZE) -> Any:
    """A picture whose mean says its number."""
    return numpy.full((size[1], size[0], 3), 10 + GREY_STEP * number, numpy.uint8)


class Maker:
    """Writes test videos below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        name: str = "clip.mp4",
        times: Sequence[float] | None = None,
        *,
        count: int = 20,
        rate: int = 10,
        codec: str = "libx264",
        options: dict[str, str] | None = None,
        coding: dict[str, str] | None = None,
        pictures: Sequence[Any] | None = None,
        kind: str | None = None,
        pix_fmt: str = "yuv420p",
    ) -> Path:
        """`count` frames at `rate` a second, or at `times` (s); frame i is grey i by default.

        `options` are the container's and `coding` the codec's.
        """
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shown = list(pictures or [grey_frame(i) for i in range(len(times or range(count)))])
        with av.open(f"file:{path}", "w", format=kind, options=options or {}) as container:
            stream = container.add_stream(codec, rate=rate, options=coding or {"crf": "10"})
            stream.height, stream.width = shown[0].shape[:2]
            stream.pix_fmt = pix_fmt
            stream.codec_context.time_base = stream.time_base = _base(1000 if times else rate)
            for number, picture in enumerate(shown):
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.time_base = stream.codec_context.time_base
                frame.pts = round(times[number] * 1000) if times else number
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        return path


def _base(ticks: int) -> Any:
    from fractions import Fraction

    return Fraction(1, ticks)


def number_of(picture: Any) -> int:
    """Which frame a picture is."""
    return round((float(numpy.mean(picture)) - 10) / GREY_STEP)


def turn(path: Path, degrees: int = 90) -> None:
    """Set the display matrix of an MP4's track to `degrees` clockwise, as a phone held so does."""
    content = bytearray(path.read_bytes())
    start = content.index(b"tkhd") + 4
    offset = start + (40 if content[start] == 0 else 52)
    across, down = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    fixed = [across << 16, down << 16, 0, -down << 16, across << 16, 0, 0, 0, 1 << 30]
    content[offset : offset + 36] = struct.pack(">9i", *fixed)
    path.write_bytes(content)


def cut_beginning(path: Path, frames: int, rate: int) -> None:
    """Let the edit list of an MP4 start `frames` later, as a trimmed phone clip does."""
    content = bytearray(path.read_bytes())
    scale = int.from_bytes(content[content.index(b"mdhd") + 16 :][:4], "big")
    start = content.index(b"elst") + 16
    media_time = int.from_bytes(content[start : start + 4], "big") + frames * scale // rate
    content[start : start + 4] = media_time.to_bytes(4, "big")
    path.write_bytes(content)


@pytest.fixture
def make_video(tmp_path: Path) -> Maker:
    """Writes test videos into tmp_path."""
    return Maker(tmp_path)


@pytest.fixture
def frame_number() -> Any:
    """Reads the number that a frame of `make_video` carries."""
    return number_of


@pytest.fixture
def skip_frames() -> Any:
    """Trims the beginning of an MP4 without touching its frames."""
    return cut_beginning


@pytest.fixture
def turned() -> Any:
    """Marks an MP4 as recorded sideways or upside down."""
    return turn


@pytest.fixture
def drawn() -> Any:
    """Draws a picture that shows its number."""
    return drawn_number


@pytest.fixture
def read_number() -> Any:
    """Reads the number that `drawn` has drawn."""
    return read_drawn
