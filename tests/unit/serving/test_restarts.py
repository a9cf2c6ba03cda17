from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import restarts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_800_000_000.0]  # 2027-01-15T08:00:00Z
    monkeypatch.setattr(restarts.time, "time", lambda: now[0])
    return now


def test_one_start_too_many_says_when_the_next_is_allowed(
    tmp_path: Path, clock: list[float]
) -> None:
    restarts.note(tmp_path, 2, "a")
    clock[0] += 600
    restarts.note(tmp_path, 2, "b")
    with pytest.raises(KeyelabError, match="at most 2 starts of a server an hour") as error:
        restarts.note(tmp_path, 2, "c")
    assert "allowed at 2027-01-15T09:00:00Z, in 50 min" in error.value.message
    clock[0] += 3001
    restarts.note(tmp_path, 2, "c")
    assert len((tmp_path / "servers" / "starts.jsonl").read_text().splitlines()) == 2


def test_zero_allows_any_number_and_still_counts(tmp_path: Path, clock: list[float]) -> None:
    for _ in range(3):
        restarts.note(tmp_path, 0, "a")
    with pytest.raises(KeyelabError, match="found 3"):
        restarts.note(tmp_path, 3, "a")


def test_a_damaged_line_counts_for_nothing(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "servers" / "starts.jsonl"
    file.parent.mkdir()
    file.write_text('{"at_s": 1e99, "run": "future"}\nnonsense\n[]\n{"at_s": null}\n')
    restarts.note(tmp_path, 1, "a")
    assert len(file.read_text().splitlines()) == 1
