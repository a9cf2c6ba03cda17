"""Requests as rows for people: what a log says of each, and what to know before using a rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.perf import explain
from keyelab.perf.summary import rows as plain_rows
from keyelab.perf.tables import Tables

Row = dict[str, Any]
SHOWN = (
    "task", "state", "context_tokens", "cached_tokens", "images", "prompt_tokens", "prompt_ms",
    "prefill_tps", "decode_tokens", "decode_ms", "decode_tps", "decode_tps_logged", "line", "note",
)  # fmt: skip


def rows(own: Tables) -> list[Row]:
    """One row a request of one server run, plain values; None is not stated in the log."""
    return [
        {name: value for name, value in {**row, "note": _note(row)}.items() if name in SHOWN}
        for row in plain_rows(own.tasks)
    ]


def _note(row: Row) -> str:
    said = [] if row["state"] == "finished" else [f"{row['state']}, {_progress(row)}"]
    if is_cached(row):
        said.append(f"cached prompt ({row['prompt_tokens']} evaluated)")
    elif row["prompt_tokens"] == 1:
        said.append("1 token evaluated: no prefill speed")
    if row["truncated"]:
        said.append("context was cut (truncated = 1)")
    if row["drafts"]:
        share = (row["drafts_accepted"] or 0) / row["drafts"]
        said.append(
            f"{row['drafts_accepted']} of {row['drafts']} ({share:.3f}) drafted tokens accepted"
        )
    if row["beside"]:
        said.append("ran beside another task")
    return "; ".join(said)


def _progress(row: Row) -> str:
    if row["decode_tokens"] is None:
        return "no token written that the log tells of"
    rate = row["decode_tps_logged"]
    return f"{row['decode_tokens']} tokens" + (f" at {rate:.2f} tokens/s" if rate else "")


def is_cached(row: Row) -> bool:
    """Whether most of the prompt came from the cache: its rate is no prefill speed."""
    return (row["cached_tokens"] or 0) > (row["prompt_tokens"] or 0)


def shown(rows: Sequence[Row]) -> list[str]:
    """The columns in which at least one row has a value."""
    return [name for name in SHOWN if any(row[name] not in (None, "") for row in rows)]


def finished(rows: Sequence[Row]) -> list[Row]:
    """Requests whose final timings are in the log."""
    return [row for row in rows if row["state"] == "finished"]


def main(rows: Sequence[Row]) -> Row | None:
    """The request that a log is about: of the finished ones, the one with the longest prompt."""
    done = finished(rows)
    return max(
        [row for row in done if not is_cached(row)] or done,
        key=lambda row: row["context_tokens"] or row["prompt_tokens"] or 0,
        default=None,
    )


def ready_s(own: Tables) -> float | None:
    """From the server's start to its readiness (s)."""
    value: float | None = plain_rows(own.servers)[0]["ready_s"]
    return value


def side_by_side(runs: Sequence[tuple[str, Tables, Row | None]]) -> list[Row]:
    """One row a quantity, one column a run; the request is the one that a run is about."""
    columns = {label: _quantities(own, row or {}) for label, own, row in runs}
    return [
        {"quantity": name, **{label: values[name] for label, values in columns.items()}}
        for name in next(iter(columns.values()), {})
    ]


def _quantities(own: Tables, request: Row) -> Row:
    server = plain_rows(own.servers)[0]
    decode, images = explain.decode(own) or {}, explain.images(own) or {}
    slope = decode.get("slope_ms_per_token_of_depth")
    return {
        "start to ready (s)": server["ready_s"],
        "slots": server["slots"],
        "context of a slot (tokens)": server["context_tokens"],
        "decode at no depth, by the line (ms a token)": decode.get("intercept_ms_per_token"),
        "decode, more for 1,000 tokens of depth (ms)": None if slope is None else 1000 * slope,
        "speed halves at (tokens)": decode.get("speed_halves_at_tokens"),
        "an image, in the middle (ms)": images.get("total_ms"),
        "video request: images": request.get("images"),
        "video request: prompt (tokens)": request.get("context_tokens"),
        "video request: prefill (tokens/s)": request.get("prefill_tps"),
        "video request: answer (tokens)": request.get("decode_tokens"),
        "video request: decode (tokens/s)": request.get("decode_tps"),
    }
