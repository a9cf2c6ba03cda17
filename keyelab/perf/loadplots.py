"""Pictures of a live server: latency under load, the roofline, and memory per device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keyelab.perf.draw import LOOKS, figure, grid, logarithmic, nothing, written
from keyelab.perf.limits import Point
from keyelab.perf.load import MEASURES, PERCENTILES
from keyelab.perf.machine import Machine

Row = Mapping[str, Any]
_STYLES = ("-", "--", ":")


def latency_plot(path: Path, rows: Sequence[Row]) -> Path:
    """Write a PNG: percentiles (ms, logarithmic) against clients at once, of `load.percentiles`."""
    drawn = figure(3.8)
    panels = drawn.subplots(1, len(MEASURES))
    for axes, title in zip(panels, MEASURES.values(), strict=True):
        kinds = list(dict.fromkeys(row["kind"] for row in rows))
        for kind, (colour, mark) in zip(kinds, LOOKS, strict=False):
            own = [row for row in rows if row["kind"] == kind]
            for share, style in zip(PERCENTILES, _STYLES, strict=True):
                name = f"{title} p{share} (ms)"
                known = [row for row in own if row[name] is not None]
                axes.plot(
                    [row["clients"] for row in known],
                    [row[name] for row in known],
                    style, marker=mark, color=colour, markersize=4, label=f"{kind}, p{share}",
                )  # fmt: skip
        axes.set(title=f"{title} (ms)", xlabel="clients at once", yscale="log")
        axes.title.set_fontsize(10)
        axes.set_xticks(sorted({row["clients"] for row in rows}))
        logarithmic(axes.yaxis)
        grid(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return written(drawn, path)


def roofline_plot(path: Path, points: Sequence[Point], machine: Machine) -> Path:
    """Write a PNG: GFLOP/s against FLOP per byte, both logarithmic, with the machine's roofs."""
    import numpy as np

    drawn = figure(4.6)
    axes = drawn.subplots()
    axes.set(xlabel="operations per byte moved (FLOP/byte)", ylabel="GFLOP/s",
             title="Speed reached against what the machine allows")  # fmt: skip
    if not points:
        nothing(axes, "no measured phase: set perf_analysis.sweep")
        return written(drawn, path)
    where = [one.intensity for one in points]
    x = np.geomspace(min(where) / 3, max(where) * 3, 50)
    roofs = (
        ("memory", machine.memory_bytes_per_s, "--"),
        ("memory, working set of this model", machine.near_bytes_per_s, ":"),
    )
    top = machine.flops_per_s
    for label, speed, style in roofs:
        if speed:
            roof = np.minimum(x * speed, top or np.inf) / 1e9
            label = f"{label}: {speed / 1e9:,.0f} GB/s"
            axes.plot(x, roof, style, color="black", linewidth=1.4, label=label)
    if top:
        axes.axhline(
            top / 1e9, color="black", linewidth=1, label=f"arithmetic: {top / 1e9:,.0f} GFLOP/s"
        )
    groups: dict[str, list[Point]] = {}
    for one in points:
        groups.setdefault(one.label.rpartition(" at ")[0], []).append(one)
    for (label, own), (colour, mark) in zip(groups.items(), LOOKS * 3, strict=False):
        axes.plot(
            [one.intensity for one in own], [one.flops_per_s / 1e9 for one in own],
            mark, color=colour, markersize=6, label=label,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    logarithmic(axes.xaxis)
    logarithmic(axes.yaxis)
    grid(axes)
    drawn.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return written(drawn, path)


def memory_plot(path: Path, buffers_mib: Mapping[str, float]) -> Path:
    """Write a PNG: what the server says it holds, MiB by buffer."""
    drawn = figure(1.4 + 0.4 * max(1, len(buffers_mib)))
    axes = drawn.subplots()
    longest = max(buffers_mib.values(), default=1.0)
    for place, (_, held) in enumerate(sorted(buffers_mib.items())):
        axes.barh(place, held, color=LOOKS[0][0], height=0.6)
        text = f"{held:,.0f} MiB" if held >= 10 else f"{held:.2f} MiB"
        axes.text(held + 0.01 * longest, place, text, va="center", fontsize=9)
    axes.set_yticks(range(len(buffers_mib)), sorted(buffers_mib))
    axes.set(xlabel="memory (MiB)", title="Memory that the server states", xlim=(0, 1.2 * longest))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    grid(axes, "x")
    return written(drawn, path)
