from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from keyelab.serving import progress
from keyelab.serving.progress import Progress


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "now", 100.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Log, memory, two counts of reads, memory of the cards; bytes."""
    made = [0, 0, 0, 0, 0]
    monkeypatch.setattr(Progress, "_signs", lambda self: list(made))
    return made


def watched(tmp_path: Path, size_bytes: int = 0) -> Progress:
    return Progress(psutil.Process(os.getpid()), tmp_path / "log", size_bytes)


def test_deadline_grows_with_the_file_and_shrinks_with_the_speed(
    tmp_path: Path, clock: type[Clock], signs: list[int]
) -> None:
    load = watched(tmp_path, 57_000_000_000)
    assert load.speed_bps() is None
    assert load.deadline_s(100) == 1000, "nothing is measured yet"
    clock.now += 100
    signs[3] = 1_000_000_000
    assert load.quiet_s() == 0
    assert load.speed_bps() == 10_000_000
    assert load.deadline_s(100) == 2 * 5700 + 100
    clock.now += 10
    signs[3] = 57_000_000_000
    load.quiet_s()
    assert load.deadline_s(100) == 1000
    assert load.fraction() == 0.99


def test_log_that_grows_for_ever_does_not_move_the_deadline(
    tmp_path: Path, clock: type[Clock], signs: list[int]
) -> None:
    load = watched(tmp_path, 10**9)
    clock.now += 100
    signs[2] = 5 * 10**8
    load.quiet_s()
    before = load.deadline_s(10)
    clock.now += 1000
    signs[0] += 1
    assert load.quiet_s() == 0
    assert load.deadline_s(10) == before == 410


def test_memory_of_cards_is_progress(
    tmp_path: Path, clock: type[Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int | None] = [None, 2**30, 2**30, 3 * 2**30]
    idle = psutil.Process()  # what this one reads and holds is beside the point
    still = SimpleNamespace(read_chars=0, read_bytes=0, rss=0)
    monkeypatch.setattr(idle, "io_counters", lambda: still)
    monkeypatch.setattr(idle, "memory_info", lambda: still)
    load = Progress(idle, tmp_path / "log", 2**40, lambda: held.pop(0))
    for quiet_s in (5, 10):
        clock.now += 5
        assert load.quiet_s() in (0, quiet_s)
    clock.now += 5
    assert load.quiet_s() == 0
    assert load.loaded_bytes() == 2 * 2**30


def test_all_shards_of_a_model_count_and_what_is_missing_does_not(tmp_path: Path) -> None:
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj.gguf", "x.gguf"):
        (tmp_path / name).write_bytes(b"12345")
    first = tmp_path / "m-00001-of-00002.gguf"
    assert progress.size_bytes([first, tmp_path / "mmproj.gguf", tmp_path / "none.gguf"]) == 15
