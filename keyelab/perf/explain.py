"""What the tables of one server run explain: plain values, None where the log does not hold it.

Each function takes the rows of one run (`of`).
"""

from __future__ import annotations

from typing import Any

from keyelab.perf.fit import Line, fit
from keyelab.perf.tables import Tables

LEAST_WINDOWS = 8  # before windows tell more of depth than whole tasks do
LEAST_TOKENS = 16  # of an answer, before its mean is a speed
_STAGES = (
    ("loading_s", "start, devices, port"),
    ("tensors_s", "model opened, memory estimated"),
    ("weights_s", "weights read, context made"),
    ("projector_s", "warm-up"),
    ("multimodal_s", "projector read and tried"),
    ("slots_s", "contexts"),
    ("ready_s", "slots, prompt cache, template"),
    ("listening_s", "port opened"),
)


def of(tables: Tables, server: int) -> Tables:
    """The rows of one server run; the tables are sorted by it."""
    parts = (tables.servers, tables.tasks, tables.samples, tables.chunks, tables.events)
    cuts = [part.server.searchsorted([server, server + 1]) for part in parts]
    return Tables(*(part.iloc[cut[0] : cut[1]] for part, cut in zip(parts, cuts, strict=True)))


def last(tables: Tables) -> Tables:
    """The rows of the server run that begins last."""
    return of(tables, int(tables.servers.server.max()))


def load(tables: Tables) -> list[dict[str, Any]]:
    """Parts of the start, each from one of the log's stamps to the next (s).

    Where a line between two parts is missing, they are one.
    """
    row = tables.servers.iloc[0]
    rows: list[dict[str, Any]] = []
    before_s, names = 0.0, []
    for stamp, name in _STAGES:
        projector = stamp in ("projector_s", "multimodal_s")
        if not (projector and row.multimodal_s != row.multimodal_s):
            names.append(name)
        if row[stamp] >= before_s:  # False for a stamp that is not there
            part = {"part": "; ".join(names), "from_s": before_s, "seconds": row[stamp] - before_s}
            rows.append({name: plain(value) for name, value in part.items()})
            before_s, names = float(row[stamp]), []
    return rows


def decode_line(tables: Tables, shared: bool = False) -> tuple[Line, str] | None:
    """Decoding ms per token against depth, from windows of about 3 s, else from whole tasks.

    What is known to have run beside another task is left out unless `shared`. None where there are
    too few.
    """
    samples = tables.samples.dropna(subset=["ms_per_token", "depth_tokens"])
    samples = samples if shared else samples[samples.beside.fillna(0) == 0]
    if len(samples) >= LEAST_WINDOWS:
        line = fit(samples.depth_tokens, samples.ms_per_token)
        return (line, "windows") if line else None
    tasks = decoded(tables, shared)
    line = fit(tasks.depth_tokens, 1000 / tasks.decode_tps)
    return (line, "tasks") if line else None


def decoded(tables: Tables, shared: bool = False) -> Any:
    """Finished tasks whose mean depth and speed are known."""
    tasks = tables.tasks.dropna(subset=["depth_tokens", "decode_tps"])
    kept = (tasks.state == "finished") & (tasks.decode_tokens >= LEAST_TOKENS)
    return tasks[kept & (shared | (tasks.beside.fillna(0) == 0))]


def decode(tables: Tables) -> dict[str, Any] | None:
    """Decode speed against depth as numbers; None without a line."""
    found, both = decode_line(tables), decode_line(tables, shared=True)
    if found is None or both is None:
        return None
    line, basis = found
    low, high = line.slope_interval()
    at_zero, half = line.at(0), line.doubles_at()
    off = [
        {"task": int(task.task), "depth_tokens": float(task.depth_tokens), "ms_per_token": ms}
        for task in decoded(tables).itertuples()
        for ms in (1000 / task.decode_tps,)
        for _, least, most in (line.total([task.depth_tokens], line.residual),)
        if not least <= ms <= most
    ]
    return {
        "basis": basis,
        "n": line.n,
        "left_out_beside_others": both[0].n - line.n if both[1] == basis else None,
        "worth_n": line.effective_n,
        "depth_from_tokens": line.low_x,
        "depth_to_tokens": line.high_x,
        "slope_ms_per_token_of_depth": line.slope,
        "slope_low": low,
        "slope_high": high,
        "slope_with_shared": both[0].slope,
        "intercept_ms_per_token": at_zero[0],
        "intercept_low": at_zero[1],
        "intercept_high": at_zero[2],
        "residual_ms": line.residual,
        "largest_residual_ms": max(map(abs, line.residuals)),
        "speed_halves_at_tokens": half and half[0],
        "halves_low": half and half[1],
        "halves_high": half and half[2],
        "extrapolated": bool(line.low_x > 0.25 * line.high_x),
        "tasks_off_the_line": off,
    }


def images(tables: Tables) -> dict[str, Any] | None:
    """Time of one image; `per_1000_tokens_ms` is how it grows with the context before it."""
    chunks = tables.chunks[tables.chunks.images > 0]
    if not len(chunks):
        return None
    count = chunks.images.astype(float)
    known = chunks.dropna(subset=["total_ms", "depth_tokens"])
    line = fit(known.depth_tokens, known.total_ms / known.images.astype(float))
    low, high = line.slope_interval() if line else (None, None)
    return {
        "images": int(chunks.images.sum()),
        "tokens_per_image": _median(chunks.tokens / chunks.images),
        "tokens_basis": _first(chunks.tokens_basis),
        "encode_ms": _median(chunks.encode_ms / count),
        "prefill_ms": _median(chunks.prefill_ms / count),
        "total_ms": _median(chunks.total_ms / count),
        "least_ms": plain((chunks.total_ms / count).min()),
        "most_ms": plain((chunks.total_ms / count).max()),
        "sum_s": plain(chunks.total_ms.sum(min_count=1) / 1000),
        "per_1000_tokens_ms": line and 1000 * line.slope,
        "per_1000_low": low and 1000 * low,
        "per_1000_high": high and 1000 * high,
    }


def queueing(tables: Tables) -> dict[str, Any]:
    """How long requests waited for a slot, and how many ran at once."""
    tasks = tables.tasks
    waits = tasks.queue_s.dropna()
    return {
        "tasks": len(tasks),
        "with_known_wait": len(waits),
        "median_wait_s": _median(waits),
        "longest_wait_s": plain(waits.max()) if len(waits) else None,
        "ran_beside_others": None if tasks.beside.isna().all() else int((tasks.beside > 0).sum()),
        "most_beside": plain(tasks.beside.max()),
    }


def cache(tables: Tables) -> dict[str, Any] | None:
    """What keeping prompts in the host's memory cost; None where the log names none of it."""
    events = tables.events
    updates = events[events.kind == "cache_update"]
    saved = events[events.kind.isin(["prompt_saved", "idle_slot_saved"])]
    idle = events[events.kind == "idle_slot_saved"]
    if not len(updates) and not len(saved):
        return None
    timed = saved.dropna(subset=["ms"])
    span_s = float(timed.ms.sum()) / 1000
    return {
        "updates": len(updates),
        "updates_ms": plain(updates.ms.sum()),
        "idle_slots_saved": len(idle),
        "idle_slots_ms": plain(idle.ms.sum(min_count=1)),
        "saved_mib": plain(saved.mib.sum()),
        "kib_per_token": _median(1024 * saved.mib / saved.tokens.astype(float)),
        "mib_per_s": float(timed.mib.sum()) / span_s if span_s > 0 else None,
    }


def graphs(tables: Tables) -> dict[str, Any] | None:
    """Whether compute graphs were reused from step to step; None where the log does not say.

    The server counts from its start; steps are those of the tasks up to the last count.
    """
    tasks = tables.tasks.dropna(subset=["graphs_reused"])
    if not len(tasks):
        return None
    steps = int((tasks.decode_tokens.fillna(1) - 1).clip(lower=0).sum())
    reused = int(tasks.graphs_reused.max())
    return {"reused": reused, "decode_steps": steps, "never": reused == 0 and steps > 0}


def _median(values: Any) -> float | None:
    values = values.dropna()
    return float(values.median()) if len(values) else None


def _first(values: Any) -> str | None:
    values = values.dropna()
    return str(values.iloc[0]) if len(values) else None


def plain(value: Any) -> Any:
    """A value of a frame as JSON can hold it: None for NA, NaN and what is not finite."""
    import pandas as pd

    if value is None or pd.isna(value) or value in (float("inf"), -float("inf")):
        return None
    return value.item() if hasattr(value, "item") else value
