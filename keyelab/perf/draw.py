"""What all pictures of speed have in common: colours, grid, numbers on the axes, the file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from keyelab.files import write_bytes

# Okabe and Ito's: told apart by colour-blind readers; marks and line styles differ as well
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, YELLOW, GREY = "#56B4E9", "#E69F00", "#F0E442", "#999999"
LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"))


def figure(height_in: float = 4.2) -> Any:
    """An empty figure that spaces its parts by itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(7.6, height_in), layout="constrained")


def grid(axes: Any, axis: str = "both") -> None:
    """Thin lines behind the data."""
    axes.grid(axis=axis, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def logarithmic(axis: Any) -> None:
    """Plain numbers on a logarithmic axis whose data is drawn: 1, 2, 5 or, on a long one, 1, 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter("")


def nothing(axes: Any, text: str) -> None:
    """Say why there is no data."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="#555555")


def written(figure: Any, path: Path) -> Path:
    """Write the PNG, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    return write_bytes(path, buffer.getvalue())
