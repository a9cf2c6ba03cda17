"""Percentiles, throughput and goodput of requests under load."""

from __future__ import annotations

from typing import Any

import pytest

from keyelab.perf.load import percentiles


def row(level: int, ttft_s: float, token_ms: float = 5.0, **over: Any) -> dict[str, Any]:
    return {
        "kind": "text", "level": level, "round_s": 2.0, "ttft_s": ttft_s, "total_s": ttft_s + 1,
        "tokens": 10, "token_ms": token_ms, "error": "", **over,
    }  # fmt: skip


def test_percentiles_and_tokens_per_second_of_all_clients() -> None:
    rows = [row(2, ttft_s) for ttft_s in (0.1, 0.2, 0.3, 0.4)]  # two rounds of two
    (told,) = percentiles(rows)
    assert (told["clients"], told["requests"], told["failed"]) == (2, 4, 0)
    assert told["tokens/s"] == pytest.approx(10.0)
    assert told["first token p50 (ms)"] == pytest.approx(250)
    assert told["first token p99 (ms)"] == pytest.approx(397)
    assert "goodput (requests/s)" not in told


@pytest.mark.parametrize(
    ("limits", "kept"), [((0.25, 0), 1.0), ((0, 6), 1.5), ((0.25, 6), 0.5), ((9, 9), 2.0)]
)
def test_goodput_counts_what_kept_both_limits(limits: tuple[float, float], kept: float) -> None:
    rows = [row(4, 0.1), row(4, 0.2, 7.0), row(4, 0.3), row(4, 0.4)]
    (told,) = percentiles(rows, *limits)
    assert told["goodput (requests/s)"] == pytest.approx(kept)


def test_failed_requests_are_counted_and_not_measured() -> None:
    rows = [
        row(1, 0.1),
        {**row(1, 0.0), "error": "HTTP 500", "ttft_s": None, "token_ms": None, "tokens": None},
    ]
    (told,) = percentiles(rows, 1, 0)
    assert (told["failed"], told["first token p99 (ms)"]) == (1, pytest.approx(100))
    assert told["goodput (requests/s)"] == pytest.approx(0.25)
    (none,) = percentiles(rows[1:])
    assert none["whole answer p50 (ms)"] is None
