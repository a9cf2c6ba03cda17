"""Tasks as tables: one row a task, one row a decode window; units in the column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.perf.summary import Summary
from keyelab.perf.tasks import Task, overlapped

SHOWN = (
    "task", "state", "context_tokens", "cached_tokens", "images", "prompt_tokens", "prompt_ms",
    "prefill_tps", "decode_tokens", "decode_ms", "decode_tps", "decode_tps_logged", "note",
)  # fmt: skip


def rows(summary: Summary) -> list[dict[str, Any]]:
    """One row a task, plain values that JSON can hold; None is not stated in the log."""
    shared = overlapped(summary.tasks.values())
    return [row(task, task.id in shared) for task in summary.tasks.values()]


def row(task: Task, shared: bool = False) -> dict[str, Any]:
    """A task as a table row."""
    return {
        "task": task.id,
        "slot": task.slot,
        "state": task.state,
        "context_tokens": task.context_tokens,
        "cached_tokens": task.cached_tokens,
        "images": task.images,
        "queue_ms": _rounded(task.queue_ms),
        "prompt_tokens": task.prompt_tokens,
        "prompt_ms": task.prompt_ms,
        "prefill_tps": _rounded(task.prefill_tps),
        "decode_tokens": task.decode_tokens,
        "decode_ms": task.decode_ms,
        "decode_tps": _rounded(task.decode_tps),
        "decode_tps_logged": task.decode_tps_logged,
        "decode_basis": task.basis,
        "total_ms": task.total_ms,
        "windows": len(task.windows),
        "note": note(task, shared),
        "log_line": task.line,
    }


def note(task: Task, shared: bool) -> str:
    """What a reader must know before using a task's rates."""
    said = []
    if task.cached_prompt:
        said.append(f"cached prompt ({task.prompt_tokens} evaluated)")
    if task.truncated:
        said.append("context was cut (truncated = 1)")
    if shared:
        said.append("ran beside another task")
    if task.state == "unfinished" and task.marks:
        last = task.marks[-1]
        said.append(f"last known: {last.decoded} tokens at {last.tps} t/s")
    if task.draft_generated:
        share = (task.draft_accepted or 0) / task.draft_generated
        said.append(f"drafts accepted {share:.3f} ({task.draft_accepted}/{task.draft_generated})")
    return "; ".join(said)


def windows(summary: Summary) -> Any:
    """Decode windows as a pandas frame: task, depth_tokens, tokens, seconds, tps, tps_logged."""
    import pandas

    return pandas.DataFrame(
        [
            {
                "task": task.id,
                "depth_tokens": window.depth_tokens,
                "tokens": window.tokens,
                "seconds": window.seconds,
                "tps": window.tps,
                "tps_logged": window.tps_logged,
            }
            for task in summary.tasks.values()
            for window in task.windows
        ],
        columns=["task", "depth_tokens", "tokens", "seconds", "tps", "tps_logged"],
    )


def spread(summary: Summary) -> list[dict[str, Any]]:
    """Decode speed of each task's windows: n, median and the middle 80 % (tokens per second)."""
    grouped = windows(summary).groupby("task")
    return [
        {
            "task": int(task),
            "windows": len(part),
            "depth_tokens": f"{part.depth_tokens.min():.0f} to {part.depth_tokens.max():.0f}",
            "median_tps": float(part.tps.median()),
            "p10_tps": float(part.tps.quantile(0.1)),
            "p90_tps": float(part.tps.quantile(0.9)),
        }
        for task, part in grouped
    ]


def side_by_side(runs: Sequence[tuple[str, Summary, Task | None]]) -> list[dict[str, Any]]:
    """One row a quantity, one column a run; the task is the one that a run is about."""
    lines: dict[str, list[Any]] = {}
    for _, summary, task in runs:
        for name, value in {
            "start to ready (s)": summary.ready_s,
            "of that, weights loaded at (s)": summary.weights_s,
            "slots": summary.slots,
            "context (tokens)": summary.context_tokens,
            "video request: images": task and task.images,
            "video request: prompt (tokens)": task and task.context_tokens,
            "video request: prefill (tokens/s)": task and task.prefill_tps,
            "video request: answer (tokens)": task and task.decode_tokens,
            "video request: decode (tokens/s)": task and task.decode_tps,
        }.items():
            lines.setdefault(name, []).append(value)
    labels = [label for label, _, _ in runs]
    return [
        {"quantity": name, **dict(zip(labels, values, strict=True))}
        for name, values in lines.items()
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
