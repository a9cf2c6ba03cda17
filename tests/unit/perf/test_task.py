"""Rates of a task: which count, which time, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from keyelab.perf.task import Task


def done(**given: Any) -> Task:
    return Task(1, **{"decode_ms": 1000.0, "decode_tokens": 11, **given})


def test_decode_speed_counts_steps_and_one_token_has_none() -> None:
    assert done().decode_tps == pytest.approx(10.0)
    assert done(decode_tokens=1).decode_tps is None
    assert done(decode_ms=0.0).decode_tps is None
    assert done(decode_ms=None).decode_tps is None


def test_context_follows_from_the_release() -> None:
    assert done(end_tokens=156, decode_tokens=147, prompt_tokens=4).cached_tokens == 6
    assert done(end_tokens=156, decode_tokens=147).context_tokens == 10
    assert done(end_tokens=156, decode_tokens=147, truncated=True).context_tokens is None
    assert done().context_tokens is None


def test_a_mostly_cached_prompt_has_no_prefill_speed() -> None:
    few = done(end_tokens=110, prompt_tokens=10, prompt_ms=5.0)
    most = done(end_tokens=110, prompt_tokens=90, prompt_ms=1000.0)
    assert few.cached_prompt
    assert few.prefill_tps is None
    assert most.prefill_tps == pytest.approx(90.0)
