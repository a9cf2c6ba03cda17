"""Work grows with its input and not faster; ratios inside one run, so any machine will do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from perflog import parse

from keyelab.files import sha256_tree
from keyelab.perf.reader import ARTICLE_LOG

pytestmark = pytest.mark.bench


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return median(took)


def test_a_log_ten_times_as_long_takes_no_more_than_fifteen_times(
    record_property: Callable[[str, object], None],
) -> None:
    lines = ARTICLE_LOG.read_text(encoding="utf-8").splitlines(keepends=True)
    once = seconds(lambda: parse(lines))
    ten = seconds(lambda: parse(lines * 10))
    record_property("ratio", ten / once)
    assert ten / once < 15


def test_a_tree_digest_takes_no_more_than_25_times_the_bare_reading(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number}.cpp").write_bytes(b"x" * 20_000)
    bare = seconds(lambda: [path.read_bytes() for path in tmp_path.iterdir()])
    assert seconds(lambda: sha256_tree(tmp_path)) / bare < 25
