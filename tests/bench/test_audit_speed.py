"""The launch audit against a bare parse of the same sources, on the pinned tree."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keyelab.patching.cuda.syntax import parse
from keyelab.patching.launches import launches
from keyelab.patching.verify import KERNELS

pytestmark = [pytest.mark.bench, pytest.mark.source]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least processor time of several runs: what another process takes is not ours."""
    took = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def test_an_audit_takes_less_than_ten_times_the_bare_parse_and_three_seconds(
    llama_source: Path, record_property: Callable[[str, object], None]
) -> None:
    paths = sorted((llama_source / KERNELS).rglob("*.cu*"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    bare = seconds(lambda: [parse(text) for text in texts])
    audit = seconds(lambda: launches(llama_source))
    record_property("files", len(paths))
    record_property("bytes", sum(map(len, texts)))
    record_property("parse_s", round(bare, 3))
    record_property("audit_s", round(audit, 3))
    record_property("ratio", round(audit / bare, 1))
    assert audit / bare < 10
    assert audit < 3
