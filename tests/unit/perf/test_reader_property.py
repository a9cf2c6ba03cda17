"""Whatever is done to a log: reading it never raises and never makes up a task."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from perflog import Log, parse, tables_of

from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.requests import rows
from keyelab.perf.timeline import segments

CONTENT = ARTICLE_LOG.read_bytes()
LINES = CONTENT.decode().splitlines(keepends=True)
TRUE = rows(tables_of(LINES))
TASKS = {row["task"] for row in TRUE}
FINISHED = {row["task"] for row in TRUE if row["state"] == "finished"}


def read(lines: list[str]) -> Log:
    log = parse(lines)
    if log.line:
        own = tables_of(lines)
        rows(own)
        assert (own.samples.ms_per_token.dropna() > 0).all()
        for task in own.tasks.itertuples():
            segments(own, task)
    return log


def nothing_made_up(log: Log) -> None:
    assert set(log.tasks) <= TASKS
    assert {task.id for task in log.finished} <= FINISHED
    for task in log.finished:
        (true,) = [row for row in TRUE if row["task"] == task.id]
        assert task.decode_tokens == true["decode_tokens"]
        assert task.decode_ms == true["decode_ms"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), keep=st.integers(0, len(LINES)))
def test_shuffled_and_thinned(seed: int, keep: int) -> None:
    nothing_made_up(read(random.Random(seed).sample(LINES, keep)))


@settings(max_examples=150, deadline=None)
@given(end=st.integers(0, len(CONTENT)))
def test_cut_at_any_byte(end: int) -> None:
    kept = CONTENT[:end].decode(errors="replace").splitlines(keepends=True)
    log = read(kept)
    nothing_made_up(log)
    assert log.damaged in ([], [len(kept)])
    assert {task.id for task in log.tasks.values() if task.state == "cancelled"} <= {343}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=200), st.sampled_from(LINES)), max_size=20))
def test_mixed_with_anything(lines: list[str]) -> None:
    read(lines)
