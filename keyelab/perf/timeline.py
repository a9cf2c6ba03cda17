"""A picture of where each request's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyelab.perf import draw
from keyelab.perf.tables import Tables

_KINDS = {
    "queue": draw.GREY,
    "prompt": draw.SKY,
    "image encode": draw.AMBER,
    "image encode and prefill": draw.YELLOW,
    "decode": draw.GREEN,
    "not finished": draw.PINK,
}
_MOST_TASKS = 12


def timeline_plot(path: Path, runs: Sequence[tuple[str, Tables]]) -> Path:
    """Write a PNG: each request from its arrival, as bars of queue, prompt, images and decode."""
    from matplotlib.patches import Patch

    lists = [own.tasks.tail(_MOST_TASKS) for _, own in runs]
    heights = [max(1, len(tasks)) + 1.2 for tasks in lists]
    figure = draw.figure(1.0 + 0.32 * sum(heights))
    grid = figure.subplots(len(runs), 1, squeeze=False, height_ratios=heights).ravel()
    for axes, (label, own), tasks in zip(grid, runs, lists, strict=True):
        bars = [segments(own, task) for task in tasks.itertuples()]
        longest_s = max((start + length for bar in bars for _, start, length in bar), default=0.0)
        unit, parts = ("seconds", 1) if longest_s >= 1 else ("ms", 1000)
        for place, bar in enumerate(bars):
            for kind, start_s, length_s in bar:
                axes.barh(
                    place, parts * length_s, left=parts * start_s, color=_KINDS[kind], height=0.7
                )
        axes.set_yticks(range(len(tasks)), [f"task {number}" for number in tasks.task])
        axes.invert_yaxis()
        left_out = len(own.tasks) - len(tasks)
        older = f" (the last {len(tasks)}; {left_out} older not drawn)" if left_out else ""
        axes.set_title(f"{label}{older}", fontsize=10, loc="left")
        axes.set_xlabel(f"{unit} since the request arrived")
        draw.grid(axes, "x")
        axes.margins(x=0.02)
        axes.set_xlim(left=0)
        if not len(tasks):
            draw.nothing(axes, "no request in the log")
    names = [Patch(color=colour, label=kind) for kind, colour in _KINDS.items()]
    figure.legend(handles=names, loc="outside lower center", ncols=3, frameon=False)
    return draw.written(figure, path)


def segments(own: Tables, task: Any) -> list[tuple[str, float, float]]:
    """(kind, start, length) in seconds since arrival (start where unknown) of a row of tasks."""
    if not task.launched_s >= 0:  # NaN too
        return []
    origin = task.arrived_s if task.arrived_s >= 0 else task.launched_s
    at = task.launched_s - origin
    parts = [("queue", 0.0, at)]
    if not task.prompt_ms >= 0:
        end_s = max(task.launched_s, task.last_seen_s)
        return [*parts, ("not finished", at, end_s - task.launched_s)]
    prompt_s = task.prompt_ms / 1000
    parts.append(("prompt", at, prompt_s))
    chunks = own.chunks[(own.chunks.task == task.task) & (own.chunks.images > 0)]
    for chunk in chunks.itertuples():
        split = chunk.encode_ms >= 0
        length_ms = chunk.encode_ms if split else chunk.total_ms
        if chunk.start_s >= 0 and length_ms >= 0:
            kind = "image encode" if split else "image encode and prefill"
            parts.append((kind, chunk.start_s - origin, length_ms / 1000))
    return [*parts, ("decode", at + prompt_s, task.decode_ms / 1000 if task.decode_ms > 0 else 0.0)]
