"""Pictures without anything but their pixels."""

from __future__ import annotations

_PNG = b"\x89PNG\r\n\x1a\n"


def is_png(content: bytes) -> bool:
    """Whether a file begins as a PNG does."""
    return content.startswith(_PNG)


def clean_png(content: bytes) -> bytes | None:
    """A PNG of the same pixels, without text, EXIF or bytes after its end; None: no PNG."""
    import cv2
    import numpy as np

    if not is_png(content):
        return None
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        return None
    done, new = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    return bytes(new) if done else None
