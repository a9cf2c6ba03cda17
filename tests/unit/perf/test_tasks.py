"""Rates of a task: which count, which time, and when there is none."""

from __future__ import annotations

import pytest

from keyelab.perf.tasks import Mark, Task, overlapped, weighted_decode_tps


def done(**given: object) -> Task:
    return Task(
        **{"id": 1, "slot": 0, "line": 1, "decode_ms": 1000.0, "decode_tokens": 11, **given}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("logged", "tokens", "label", "basis"),
    [
        (11.0, 11, None, "n/t"),
        (10.0, 11, None, "(n-1)/t"),
        (10.0, 11, False, "(n-1)/t"),
        (7.0, 11, True, None),
        (None, 11, True, None),
    ],
)
def test_basis_is_read_from_the_numbers(
    logged: float | None, tokens: int, label: bool | None, basis: str | None
) -> None:
    task = done(decode_tps_logged=logged, decode_tokens=tokens, counts_steps=label)
    assert task.basis == basis
    assert task.decode_tps == pytest.approx(10.0)


@pytest.mark.parametrize(("label", "basis"), [(True, "(n-1)/t"), (False, "n/t"), (None, None)])
def test_basis_is_read_from_the_label_where_numbers_cannot_tell(
    label: bool | None, basis: str | None
) -> None:
    task = done(decode_ms=490000.0, decode_tokens=1700, decode_tps_logged=3.47, counts_steps=label)
    assert task.basis == basis


def test_one_token_has_no_decode_speed() -> None:
    assert done(decode_tokens=1).decode_tps is None
    assert done(decode_ms=0.0).decode_tps is None
    assert done(decode_ms=None).decode_tps is None


def test_context_is_stated_or_follows_from_the_release() -> None:
    assert done(stated_prompt_tokens=74, prompt_tokens=66).cached_tokens == 8
    assert done(end_tokens=156, decode_tokens=147).context_tokens == 10
    assert done(end_tokens=156, decode_tokens=147, truncated=True).context_tokens is None
    assert done().context_tokens is None


def test_a_mostly_cached_prompt_has_no_prefill_speed() -> None:
    few = done(stated_prompt_tokens=100, prompt_tokens=10, prompt_ms=5.0)
    most = done(stated_prompt_tokens=100, prompt_tokens=90, prompt_ms=1000.0)
    assert few.cached_prompt
    assert few.prefill_tps is None
    assert most.prefill_tps == pytest.approx(90.0)


def test_windows_are_between_marks_and_never_run_backwards() -> None:
    marks = [
        Mark(10.0, 100, 20.0, 20.0),
        Mark(13.0, 130, 15.0, 10.0),
        Mark(12.0, 160, 15.0, 10.0),
        Mark(None, 170, None, None),
    ]
    (window,) = done(marks=marks, stated_prompt_tokens=1000).windows
    assert (window.tokens, window.seconds, window.depth_tokens) == (30, 3.0, 1130)
    assert window.tps == pytest.approx(10.0)


def test_overlap_needs_shared_time() -> None:
    first = Task(1, 0, 1, launched_s=0.0, released_s=10.0)
    beside = Task(2, 1, 2, launched_s=9.0, last_seen_s=12.0)
    later = Task(3, 0, 3, launched_s=12.0, released_s=13.0)
    unknown = Task(4, 0, 4)
    assert overlapped([first, beside, later, unknown]) == {1, 2}


def test_together_means_tokens_over_time() -> None:
    slow = done(decode_ms=6000.0, decode_tokens=60)
    fast = done(decode_ms=4900.0, decode_tokens=98)
    assert weighted_decode_tps([slow, fast, done(decode_ms=None)]) == pytest.approx(14.4954, 1e-4)
    assert weighted_decode_tps([]) is None
