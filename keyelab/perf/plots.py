"""Pictures of logs: decode speed against context depth, and the time of one image after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.perf import explain
from keyelab.perf.draw import LOOKS, figure, grid, logarithmic, nothing, written
from keyelab.perf.fit import Line, fit
from keyelab.perf.tables import Tables


@dataclass(frozen=True)
class Curve:
    """Decode times of one run: depths (tokens) and ms per token, and the line through them.

    `means` are whole answers, `points` what the line is fitted to.
    """

    label: str
    points: tuple[Any, Any]
    means: tuple[Any, Any]
    line: Line | None

    @property
    def known(self) -> bool:
        """Whether there is anything to draw."""
        return len(self.points[0]) + len(self.means[0]) > 0


def curve(label: str, own: Tables) -> Curve:
    """The curve of a log; what ran beside another request is left out."""
    found = explain.decode_line(own)
    samples = own.samples.dropna(subset=["ms_per_token", "depth_tokens"])
    samples = samples[samples.beside.fillna(0) == 0]
    tasks = explain.decoded(own)
    return Curve(
        label,
        (samples.depth_tokens.to_numpy(float), samples.ms_per_token.to_numpy(float)),
        (tasks.depth_tokens.to_numpy(float), 1000 / tasks.decode_tps.to_numpy(float)),
        found[0] if found else None,
    )


def swept(rows: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """The curves of a depth sweep, one a way."""
    curves = []
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way and row["ms_per_token"]]
        points = [row["depth_tokens"] for row in own], [row["ms_per_token"] for row in own]
        curves.append(Curve(way, points, ((), ()), fit(*points)))
    return curves


def depth_plot(path: Path, curves: Sequence[Curve]) -> Path:
    """Write a PNG: decode speed (tokens/s) against context depth (tokens), speed logarithmic.

    Small marks are the points of a line (windows of about 3 s, or runs of a sweep), large ones
    whole answers, the band is the 95 % interval of the line, which is dashed where nothing was
    measured.
    """
    import numpy as np

    drawn = figure()
    axes = drawn.subplots()
    for one, (colour, mark) in zip(curves, LOOKS, strict=False):
        if not one.known:
            continue
        look: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": "none"}
        points, means = [np.asarray(side, float) for side in one.points], one.means
        alpha = 0.3 if len(points[0]) > 50 else 0.9
        axes.plot(points[0], 1000 / points[1], markersize=3, alpha=alpha, **look)
        count = f"{len(points[0])} points, {len(means[0])} answers" if len(means[0]) else (
            f"{len(points[0])} points"
        )  # fmt: skip
        axes.plot(
            means[0], [1000 / ms for ms in means[1]], markersize=8, markerfacecolor="none",
            label=f"{one.label}: {count}", **look,
        )  # fmt: skip
        if one.line:
            depths = np.linspace(0, one.line.high_x, 200)
            value, low, high = np.array([one.line.at(depth) for depth in depths]).T
            value = np.where(value > 0, value, np.nan)  # a line that starts below nothing
            low = np.maximum(low, 0.3 * value)  # beyond it the interval leaves the picture
            inside = depths >= one.line.low_x
            axes.fill_between(depths, 1000 / high, 1000 / low, color=colour, alpha=0.15, lw=0)
            axes.plot(depths[inside], 1000 / value[inside], color="black", linewidth=1.2)
            axes.plot(depths[~inside], 1000 / value[~inside], "--", color="black", linewidth=1.0)
    axes.set(
        title="Decode speed against context depth",
        xlabel="context depth (tokens)",
        ylabel="decode speed (tokens/s)",
        yscale="log",
    )
    known = any(one.known for one in curves)
    if not known:
        nothing(axes, "no speed of known depth")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.margins(0.06)
    logarithmic(axes.yaxis)
    grid(axes)
    if known:
        drawn.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return written(drawn, path)


def image_plot(path: Path, runs: Sequence[tuple[str, Tables]]) -> Path:
    """Write a PNG: time of each image against the context before it, one panel a run."""
    drawn = figure(3.4)
    grid_of = drawn.subplots(1, len(runs), squeeze=False).ravel()
    for axes, (label, own), (colour, mark) in zip(grid_of, runs, LOOKS, strict=False):
        chunks = own.chunks[own.chunks.images > 0].dropna(subset=["total_ms", "depth_tokens"])
        axes.set_title(f"{label}: {len(chunks)} images", fontsize=10, loc="left")
        axes.set_xlabel("context with the image (tokens)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        grid(axes)
        if not len(chunks):
            nothing(axes, "no image of known time\n(from b10019 on: start with -lv 4)")
            continue
        depth = chunks.depth_tokens.to_numpy(float)
        total_ms = (chunks.total_ms / chunks.images.astype(float)).to_numpy(float)
        unit, parts = ("s", 1000) if total_ms.max() >= 1000 else ("ms", 1)
        axes.set_ylabel(f"time of the image ({unit})")
        axes.plot(
            depth, total_ms / parts, mark, color=colour, markersize=5, label="encode and prefill"
        )
        encode = (chunks.encode_ms / chunks.images.astype(float)).to_numpy(float) / parts
        if (encode == encode).any():
            axes.plot(
                depth, encode, mark, color=colour, markersize=5, markerfacecolor="none",
                label="encode alone",
            )  # fmt: skip
        line = fit(depth, total_ms / parts)
        if line and line.slope_interval()[0] > 0:  # else depth makes no difference that is seen
            ends = [line.low_x, line.high_x]
            axes.plot(ends, [line.at(x)[0] for x in ends], color=colour, linewidth=1.2)
        axes.set_ylim(0, 1.3 * total_ms.max() / parts)
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    return written(drawn, path)
