"""A folder of pictures as a video: their natural order, no times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown

KIND = "picture folder"
_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"})


def pictures(path: Path) -> tuple[Path, ...]:
    """The pictures of a folder, frame_2 before frame_10; hidden and other files do not count.

    Raises KeyelabError when there is none.
    """
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    files = [entry for entry in entries if entry.suffix.lower() in _SUFFIXES and entry.is_file()]
    if not files:
        others = ", ".join(sorted(entry.name for entry in entries)[:5])
        raise KeyelabError(
            f"expected pictures ({' '.join(sorted(_SUFFIXES))}) in the folder {shown(path)}, "
            f"found {others or 'nothing'}",
            "set video_test.video to a video file or to a folder of pictures",
        )
    return tuple(sorted(files, key=_natural))


def read(file: Path) -> Any:
    """A picture, upright RGB (height × width × 3, uint8). Raises KeyelabError when it is none."""
    import cv2
    import numpy

    content = numpy.frombuffer(file.read_bytes(), numpy.uint8)
    bgr = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    if bgr is None:
        raise KeyelabError(
            f"expected a picture in {shown(file)}, found {content.size} bytes that are none",
            "make the file again, or take it out of the folder",
        )
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def _natural(file: Path) -> tuple[list[int | str], str]:
    """Digits compare as numbers; a name that differs only in leading zeros decides last."""
    parts = re.split(r"(\d+)", file.name.casefold())
    return [int(part) if part.isdigit() else part for part in parts], file.name
