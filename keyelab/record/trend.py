"""Decode speed over time: points, the lines that may join them, and where they stand in a picture.

Only runs of one model on one host, measured in one way at one depth, are joined by a line; a point
looks like its build and recipe.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path

from keyelab.record.row import Row

LEFT, RIGHT, TOP, BOTTOM = 58, 460, 26, 196  # of the axes, in 480 by 250
# Okabe and Ito's: told apart by colour-blind readers; shapes and dashes differ as well
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.6L4.4 3.4h-8.8z",
    "M0-4.9L4.9 0 0 4.9-4.9 0z",
)
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Mark:
    """A run in the picture: x and y, and what it is in words."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Group:
    """Points that look alike, on one line: what they have in common, their spread (tokens/s)."""

    line: str
    colour: str
    shape: str
    model: str
    host: str
    build: str
    recipe: str
    measured: str
    n: int
    median_tps: float
    least_tps: float
    most_tps: float
    first: str
    last: str
    marks: list[Mark]


@dataclass(frozen=True)
class Line:
    """One line: its name, the SVG path and where its name stands."""

    name: str
    path: str
    dash: str
    end: Mark


@dataclass(frozen=True)
class Trend:
    """A target's picture and the table that says the same."""

    target: str
    groups: list[Group]
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def trend(target: str, rows: Sequence[Row], start: Path) -> Trend | None:
    """The trend of a target's counted runs that measured a speed; None when there are none.

    Runs are named by their path below `start`.
    """
    points = sorted(
        ((row.time, row) for row in rows if row.target == target and row.counted and row.time),
        key=lambda point: point[0],
    )
    points = [(time, row) for time, row in points if row.speed]
    if not points:
        return None
    first, last = points[0][0], points[-1][0]
    top, y_ticks = _scale(max(row.speed.decode_tps for _, row in points if row.speed))
    looks: dict[tuple[str, str], int] = {}
    for _, row in points:
        looks.setdefault((row.build, row.recipe), len(looks))

    def place(time: datetime, row: Row) -> Mark:
        assert row.speed
        share = (time - first) / (last - first) if last > first else 0.5
        return Mark(
            round(LEFT + 8 + (RIGHT - LEFT - 24) * share, 1),
            round(BOTTOM - (BOTTOM - TOP) * row.speed.decode_tps / top, 1),
            f"{row.folder.relative_to(start)}: {row.speed.decode_tps:.4g} tokens/s",
        )

    ordered = sorted(points, key=lambda point: _series(point[1]))
    groups, lines = [], []
    for number, (_, members) in enumerate(groupby(ordered, key=lambda point: _series(point[1]))):
        own = list(members)
        name = _letter(number)
        marks = [place(time, row) for time, row in own]
        path = "M" + "L".join(f"{mark.x} {mark.y}" for mark in marks) if len(marks) > 1 else ""
        lines.append(Line(name, path, DASHES[number % len(DASHES)], marks[-1]))
        for look, at in looks.items():
            alike = [(t, r) for t, r in own if (r.build, r.recipe) == look]
            if alike:
                groups.append(_group(name, at, alike, [place(t, r) for t, r in alike]))
    return Trend(target, groups, lines, _dates(first, last), y_ticks)


def measured(row: Row) -> str:
    """How a speed was measured, in words."""
    if row.speed is None:
        return ""
    depth = row.speed.depth_tokens
    at = "" if depth is None else f", at depth {depth:,}"
    return f"{row.speed.way}{at}"


def _series(row: Row) -> tuple[str, ...]:
    return row.model_sha256, row.model, row.host, measured(row)


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def _group(name: str, at: int, alike: list[tuple[datetime, Row]], marks: list[Mark]) -> Group:
    speeds = [row.speed.decode_tps for _, row in alike if row.speed]
    row = alike[0][1]
    return Group(
        line=name,
        colour=COLOURS[at % len(COLOURS)],
        shape=SHAPES[at % len(SHAPES)],
        model=f"{row.model} {row.model_sha256[:12]}".strip(),
        host=row.host,
        build=row.build,
        recipe=row.recipe,
        measured=measured(row),
        n=len(speeds),
        median_tps=statistics.median(speeds),
        least_tps=min(speeds),
        most_tps=max(speeds),
        first=f"{alike[0][0]:%Y-%m-%d}",
        last=f"{alike[-1][0]:%Y-%m-%d}",
        marks=marks,
    )


def _scale(most: float) -> tuple[float, list[tuple[float, str]]]:
    """The top of the axis, which begins at 0, and its ticks."""
    unit = 10 ** math.floor(math.log10(most / 4))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times * 5 >= most)
    count = math.ceil(most / step)
    ticks = [
        (round(BOTTOM - (BOTTOM - TOP) * i / count, 1), f"{i * step:,.10g}")
        for i in range(count + 1)
    ]
    return step * count, ticks


def _dates(first: datetime, last: datetime) -> list[tuple[float, str]]:
    middle = LEFT + 8 + (RIGHT - LEFT - 24) / 2
    if last <= first:
        return [(middle, f"{first:%Y-%m-%d %H:%M}")]
    form = "%Y-%m-%d" if (last - first).days >= 3 else "%m-%d %H:%M"
    times = (first, first + (last - first) / 2, last)
    return [
        (x, time.strftime(form))
        for x, time in zip((LEFT + 8, middle, RIGHT - 16), times, strict=True)
    ]
