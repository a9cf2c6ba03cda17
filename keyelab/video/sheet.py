"""The contact sheet: what the model was shown, on one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyelab.files import write_bytes
from keyelab.video.frame import Frame

_GAP_PX, _LINE_PX = 8, 22  # between pictures, and for a line of text


def contact_sheet(frames: Sequence[Frame], path: Path) -> Path:
    """Write a PNG of the frames as they were sent, each with its number and time."""
    import cv2
    import numpy

    most, width = (5, 220) if len(frames) <= 20 else (10, 130)  # a picture's width in px
    columns = math.ceil(len(frames) / math.ceil(len(frames) / most))
    cells = [_cell(frame, width) for frame in frames]
    height = max(cell.shape[0] for cell in cells)
    lines = math.ceil(len(cells) / columns)
    size = (lines * height + _GAP_PX, columns * (width + _GAP_PX) + _GAP_PX, 3)
    sheet = numpy.full(size, 255, numpy.uint8)
    for place, cell in enumerate(cells):
        top = place // columns * height
        left = place % columns * (width + _GAP_PX) + _GAP_PX
        sheet[top : top + cell.shape[0], left : left + width] = cell
    return write_bytes(path, cv2.imencode(".png", sheet)[1].tobytes())


def _cell(frame: Frame, width: int) -> Any:
    """A frame below its number and time, BGR."""
    import cv2
    import numpy

    picture = cv2.imdecode(numpy.frombuffer(frame.jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    size = (width, max(1, round(frame.height * width / frame.width)))
    way = cv2.INTER_AREA if width < frame.width else cv2.INTER_CUBIC
    cell = cv2.copyMakeBorder(
        cv2.resize(picture, size, interpolation=way), _LINE_PX, 0, 0, 0,
        cv2.BORDER_CONSTANT, value=(255, 255, 255),
    )  # fmt: skip
    time = "" if frame.pick.time_s is None else f"{frame.pick.time_s:.2f} s"
    text = f"{frame.number}: {time or 'time unknown'}"
    where = (0, _LINE_PX - 6)
    return cv2.putText(cell, text, where, cv2.FONT_HERSHEY_SIMPLEX, 0.42, (0, 0, 0), 1, cv2.LINE_AA)
