"""Pictures of a log: decode speed against context depth, and where a request's time goes.

Colours are Okabe and Ito's, told apart by colour-blind readers; marks differ as well.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyelab.files import write_bytes
from keyelab.perf.server import ServerLog
from keyelab.perf.table import windows
from keyelab.perf.task import Task

Run = tuple[str, ServerLog]
_RUNS = (("#0072B2", "o"), ("#D55E00", "s"))
_KINDS = {
    "queue": "#999999",
    "prompt": "#56B4E9",
    "image encode": "#E69F00",
    "image encode and prefill": "#F0E442",
    "decode": "#009E73",
    "not finished": "#CC79A7",
}
_MOST_TASKS = 12


def depth_plot(path: Path, runs: Sequence[Run]) -> Path:
    """Write a PNG: decode speed (tokens/s) against context depth (tokens), both logarithmic.

    Small points are the log's windows of about 3 s, large ones the mean of each finished task.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for (label, log), (colour, mark) in zip(runs, _RUNS, strict=False):
        look: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": "none"}
        frame = windows(log).dropna().astype({"depth_tokens": int})
        means = [
            (task.depth_tokens, task.decode_tps)
            for task in log.finished
            if task.depth_tokens and task.decode_tps
        ]
        axes.plot(frame.depth_tokens, frame.tps, markersize=2.5, alpha=0.5, **look)
        axes.plot(
            [depth for depth, _ in means],
            [tps for _, tps in means],
            markersize=8,
            markerfacecolor="none",
            label=f"{label}: {len(means)} tasks, {len(frame)} windows",
            **look,
        )
    axes.set(
        title="Decode speed against context depth",
        xlabel="context depth (tokens)",
        ylabel="decode speed (tokens/s)",
        xscale="log",
        yscale="log",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter("")
    axes.margins(0.12)
    axes.grid(which="both", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="best", fontsize=9)
    return _written(figure, path)


def timeline_plot(path: Path, runs: Sequence[Run]) -> Path:
    """Write a PNG: each request from its arrival, as bars of queue, prompt, images and decode."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    lists = [list(log.tasks.values())[-_MOST_TASKS:] for _, log in runs]
    heights = [max(1, len(tasks)) + 1.2 for tasks in lists]
    figure = Figure(figsize=(7.6, 1.0 + 0.32 * sum(heights)), layout="constrained")
    grid = figure.subplots(len(runs), 1, squeeze=False, height_ratios=heights).ravel()
    for axes, (label, log), tasks in zip(grid, runs, lists, strict=True):
        for place, task in enumerate(tasks):
            for kind, start_s, length_s in segments(task):
                axes.barh(place, length_s, left=start_s, color=_KINDS[kind], height=0.7)
        axes.set_yticks(range(len(tasks)), [f"task {task.id}" for task in tasks])
        axes.invert_yaxis()
        left_out = len(log.tasks) - len(tasks)
        older = f" (the last {len(tasks)}; {left_out} older not drawn)" if left_out else ""
        axes.set_title(f"{label}{older}", fontsize=10, loc="left")
        axes.set_xlabel("seconds since the request arrived")
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.02)
        axes.set_xlim(left=0)
    names = [Patch(color=colour, label=kind) for kind, colour in _KINDS.items()]
    figure.legend(handles=names, loc="outside lower center", ncols=3, frameon=False)
    return _written(figure, path)


def segments(task: Task) -> list[tuple[str, float, float]]:
    """(kind, start, length) in seconds since the task's arrival (its start where unknown)."""
    if task.launched_s is None:
        return []
    origin = task.launched_s if task.arrived_s is None else task.arrived_s
    at = task.launched_s - origin
    parts = [("queue", 0.0, at)]
    if task.prompt_ms is None:
        end_s = task.launched_s if task.last_seen_s is None else task.last_seen_s
        return [*parts, ("not finished", at, end_s - task.launched_s)]
    prompt_s = task.prompt_ms / 1000
    parts.append(("prompt", at, prompt_s))
    for encode in task.encodes:
        if encode.end_s is not None and encode.start_s is not None:
            kind = "image encode and prefill" if encode.with_prefill else "image encode"
            parts.append((kind, encode.start_s - origin, encode.end_s - encode.start_s))
    return [*parts, ("decode", at + prompt_s, (task.decode_ms or 0.0) / 1000)]


def _written(figure: Any, path: Path) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    return write_bytes(path, buffer.getvalue())
