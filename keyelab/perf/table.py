"""A log as tables: one row a task, one row a decode window; units in the column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.perf.server import ServerLog
from keyelab.perf.task import Task, overlapped

APART = 4  # deepest over shallowest, before a difference is one of depth


def rows(log: ServerLog) -> list[dict[str, Any]]:
    """One row a task, plain values that JSON can hold; None is not stated in the log.

    A task without an end has its last known tokens and rate. A `_line` says where in the log.
    """
    shared = overlapped(log.tasks.values())
    return [
        {
            "task": task.id,
            "state": task.state,
            "context_tokens": task.context_tokens,
            "cached_tokens": task.cached_tokens,
            "images": images(log, task),
            "prompt_tokens": task.prompt_tokens,
            "prompt_ms": task.prompt_ms,
            "prefill_tps": _rounded(task.prefill_tps),
            "decode_tokens": task.written,
            "decode_ms": task.decode_ms,
            "decode_tps": _rounded(task.decode_tps),
            "decode_tps_logged": task.decode_tps_logged,
            "draft_acceptance": _rounded(task.draft_acceptance),
            "prompt_line": task.prompt_line,
            "decode_line": task.decode_line,
            "note": _note(task, task.id in shared),
        }
        for task in log.tasks.values()
    ]


def _note(task: Task, shared: bool) -> str:
    """What a reader must know before using a task's rates."""
    said = []
    if task.state != "finished":
        said.append(f"{task.state}: {task.progress}")
    if task.cached_prompt:
        plural = "" if task.prompt_tokens == 1 else "s"
        said.append(f"cached prompt ({task.prompt_tokens} token{plural} evaluated)")
    elif task.prompt_tokens == 1:
        said.append("1 token evaluated: no prefill speed")
    if task.truncated:
        said.append("context was cut (truncated = 1)")
    if task.drafts:
        share = f"{task.drafts_accepted} of {task.drafts} ({task.draft_acceptance:.3f})"
        said.append(f"{share} drafted tokens accepted")
    if shared:
        said.append("ran beside another task")
    return "; ".join(said)


def stated(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns in which at least one row has a value."""
    return [name for name in next(iter(rows), {}) if any(row[name] is not None for row in rows)]


def windows(log: ServerLog) -> Any:
    """Decoding between consecutive marks as a pandas frame: task, depth_tokens at its end, tps.

    The depth is missing where the log does not state the prompt, or the context was cut.
    """
    import pandas

    found = [
        (task.id, None if depth is None else depth + (width or 0) / 2, 1000 / ms)
        for task in log.tasks.values()
        for _, _, width, depth, ms, *_ in task.samples()
        if ms
    ]
    frame = pandas.DataFrame(found, columns=["task", "depth_tokens", "tps"])
    return frame.astype({"depth_tokens": "Int64"})


def spread(log: ServerLog) -> list[dict[str, Any]]:
    """Decode speed of each task's windows: n, median and the middle 80 % (tokens per second)."""
    return [
        {
            "task": task,
            "windows": len(part),
            "depth_tokens": f"{part.depth_tokens.min()} to {part.depth_tokens.max()}"
            if part.depth_tokens.notna().all()
            else None,
            "median_tps": float(part.tps.median()),
            "p10_tps": float(part.tps.quantile(0.1)),
            "p90_tps": float(part.tps.quantile(0.9)),
        }
        for task, part in windows(log).groupby("task")
    ]


def images(log: ServerLog, *tasks: Task) -> int | None:
    """Images encoded; unknown where the log names none at all (from b10019 on: without -lv 4)."""
    named = any(task.encodes for task in log.tasks.values())
    return sum(task.images for task in tasks) if named else None


def side_by_side(runs: Sequence[tuple[str, ServerLog, Task | None]]) -> list[dict[str, Any]]:
    """One row a quantity, one column a run; the task is the one that a run is about."""
    columns = {
        label: {
            "start to ready (s)": log.ready_s,
            "of that, weights loaded at (s)": log.weights_s,
            "slots": log.slots,
            "context (tokens)": log.context_tokens,
            "video request: images": task and images(log, task),
            "video request: prompt (tokens)": task and task.context_tokens,
            "video request: prefill (tokens/s)": task and task.prefill_tps,
            "video request: answer (tokens)": task and task.decode_tokens,
            "video request: decode (tokens/s)": task and task.decode_tps,
        }
        for label, log, task in runs
    }
    names = next(iter(columns.values()), {})
    return [
        {"quantity": name, **{label: values[name] for label, values in columns.items()}}
        for name in names
    ]


def depth_sentence(log: ServerLog) -> str:
    """What a run's own numbers say about decode speed at its shallowest and deepest task.

    Rates as the log prints them, so that a reader finds them there again.
    """
    known = [
        (task.depth_tokens, task.decode_tps_logged, task.id)
        for task in log.finished
        if task.depth_tokens and task.decode_tps_logged and not task.cached_prompt
    ]
    if not known or max(known)[0] < APART * min(known)[0]:
        return "No two depths known to lie apart: it says nothing about decode against depth."
    (low, fast, first), (high, slow, last) = min(known), max(known)
    change = fast / slow
    told = f"slower by a factor of {change:.1f}" if change >= 1.1 else "no slower"
    return (
        f"It decodes {fast:,.2f} tokens/s at a mean depth of {low:,.0f} tokens (task {first}) "
        f"and {slow:,.2f} at {high:,.0f} (task {last}): {told}."
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
