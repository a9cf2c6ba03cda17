"""A concurrency sweep through HTTP: so many clients at once, each asking again when answered.

A closed loop: it finds what the server does with N users who wait for their answers, not what
happens when requests arrive faster than they are answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from keyelab.perf.client import Client, Reply
from keyelab.perf.depth import require_idle

Row = dict[str, Any]
PERCENTILES = (50, 90, 99)
MEASURES = {"ttft_s": "first token", "token_ms": "each further token", "total_s": "whole answer"}


def sweep(
    client: Client,
    kind: str,
    bodies: Sequence[Mapping[str, Any]],
    path: str,
    levels: Sequence[int],
    repeats: int,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> list[Row]:
    """One row a request: kind, level (clients at once), round_s (of all clients), its `Reply`.

    Each client asks `repeats` times; a first round of every level is thrown away. `bodies` are
    taken in turn. A request that fails is a row with its error.
    """
    require_idle(client)
    rows: list[Row] = []
    for place, level in enumerate(levels):
        with ThreadPoolExecutor(level) as pool:
            for number in range(repeats + 1):
                share = (place + number / (repeats + 1)) / len(levels)
                on_progress(share, f"{kind}: {level} at once, round {number}")
                asked = [bodies[(number * level + one) % len(bodies)] for one in range(level)]
                started = time.perf_counter()
                replies = list(pool.map(lambda body: client.ask(body, path), asked))
                round_s = time.perf_counter() - started
                if number:
                    rows += [_row(kind, level, round_s, reply) for reply in replies]
    return rows


def _row(kind: str, level: int, round_s: float, reply: Reply) -> Row:
    told = {"kind": kind, "level": level, "round_s": round_s}
    return {**told, **asdict(reply), "token_ms": reply.token_ms}


def percentiles(
    rows: Sequence[Row], ttft_limit_s: float = 0.0, token_limit_ms: float = 0.0
) -> list[Row]:
    """One row a kind and level: requests, failed, tokens/s of all, percentiles, goodput.

    Goodput counts the requests per second that kept both limits (0: none is set, no goodput).
    A percentile is of `requests` values: with ten of them the 99th is the largest.
    """
    import numpy as np

    out: list[Row] = []
    keys = dict.fromkeys((row["kind"], row["level"]) for row in rows)
    for kind, level in keys:
        part = [row for row in rows if (row["kind"], row["level"]) == (kind, level)]
        good = [row for row in part if not row["error"]]
        span_s = sum(row["round_s"] / level for row in part)  # every round once
        told: Row = {
            "kind": kind,
            "clients": level,
            "requests": len(part),
            "failed": len(part) - len(good),
            "tokens/s": sum(row["tokens"] or 0 for row in good) / span_s if span_s else None,
        }
        for name, title in MEASURES.items():
            parts = 1000 if name.endswith("_s") else 1
            values = [parts * row[name] for row in good if row[name] is not None]
            for share in PERCENTILES:
                told[f"{title} p{share} (ms)"] = (
                    float(np.percentile(values, share)) if values else None
                )
        if ttft_limit_s or token_limit_ms:
            kept = [row for row in good if _keeps(row, ttft_limit_s, token_limit_ms)]
            told["goodput (requests/s)"] = len(kept) / span_s if span_s else None
        out.append(told)
    return out


def _keeps(row: Row, ttft_limit_s: float, token_limit_ms: float) -> bool:
    first = not ttft_limit_s or (row["ttft_s"] is not None and row["ttft_s"] <= ttft_limit_s)
    each = not token_limit_ms or (row["token_ms"] is not None and row["token_ms"] <= token_limit_ms)
    return first and each
