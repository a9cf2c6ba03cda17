"""The contact sheet: what the model was shown, on one picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

from keyelab.files import write_bytes
from keyelab.video.frame import Frame


def contact_sheet(frames: Sequence[Frame], path: Path, title: str) -> Path:
    """Write a PNG of the frames as they were sent, each with its number and time."""
    import cv2
    import numpy
    from matplotlib.figure import Figure

    most, cell = (5, 1.9) if len(frames) <= 20 else (10, 1.1)  # a cell's width in inches
    lines = math.ceil(len(frames) / most)
    columns = math.ceil(len(frames) / lines)
    tall = max(frame.height / frame.width for frame in frames)
    figure = Figure(
        figsize=(max(4.0, columns * cell), 0.4 + lines * (cell * tall + 0.15)), layout="constrained"
    )
    figure.suptitle(title, fontsize=10)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, frame in zip(grid, frames, strict=False):
        picture = cv2.imdecode(numpy.frombuffer(frame.jpeg, numpy.uint8), cv2.IMREAD_COLOR)
        axes.imshow(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), interpolation="antialiased")
        time = "time unknown" if frame.pick.time_s is None else f"{frame.pick.time_s:.2f} s"
        axes.set_title(f"{frame.number} · {time}", fontsize=8, pad=3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    return write_bytes(path, buffer.getvalue())
