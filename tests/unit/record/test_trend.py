"""The trend joins only what may be compared, and its picture holds every point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import FACTS, make_run

from keyelab.record.row import Row, read
from keyelab.record.trend import BOTTOM, LEFT, RIGHT, TOP, Trend, _scale, trend


def speed(tps: float, **more: Any) -> dict[str, Any]:
    return {"perf_analysis": {**FACTS["perf_analysis"], "decode_tps": tps, "tasks": [], **more}}


def drawn(tmp_path: Path, *runs: dict[str, Any]) -> Trend:
    rows = [read(make_run(tmp_path, number, **changes)) for number, changes in enumerate(runs)]
    found = trend("cpu-demo", rows, tmp_path)
    assert found is not None
    return found


def test_runs_of_one_model_on_one_host_are_joined_over_builds(tmp_path: Path) -> None:
    new = {"facts": {**speed(30), "build": {"version": "b11434"}}}
    found = drawn(tmp_path, {"facts": speed(20)}, {"facts": speed(22)}, new)
    (line,) = found.lines
    assert line.path.count("L") == 2
    old, later = found.groups
    assert (old.build, old.n, old.median_tps, old.least_tps, old.most_tps) == (
        "b10019",
        2,
        21,
        20,
        22,
    )
    assert (later.build, later.n) == ("b11434", 1)
    assert (old.colour, old.shape) != (later.colour, later.shape)


@pytest.mark.parametrize(
    "other",
    [
        {"model_fetch": {"model": {"path": "models/tiny.gguf", "sha256": "b" * 64}}},
        {"env_check": {**FACTS["env_check"], "cpu": "Xeon"}},
        {"env_check": {**FACTS["env_check"], "devices": [{"name": "K100_AI"}]}},
        speed(20, sweep=[{"way": "http", "context_tokens": 0, "ms_per_token": 50}]),
        speed(20, tasks=[{"decode_tps": 20, "context_tokens": 512}]),
    ],
    ids=["model", "host", "cards", "way", "depth"],
)
def test_what_may_not_be_compared_is_not_joined(tmp_path: Path, other: dict[str, Any]) -> None:
    found = drawn(tmp_path, {"facts": speed(20)}, {"facts": {**speed(20), **other}})
    assert [line.path for line in found.lines] == ["", ""]
    assert [group.line for group in found.groups] == ["A", "B"]


def test_only_counted_runs_that_measured_are_points(tmp_path: Path) -> None:
    found = drawn(
        tmp_path,
        {"facts": speed(20)},
        {"facts": speed(99), "dry_run": True},
        {"failed": "build"},
        {"target": "k100ai"},
    )
    assert sum(group.n for group in found.groups) == 1
    assert trend("smoke", [], tmp_path) is None


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9))
def test_every_point_stands_inside_the_axes(speeds: list[float]) -> None:
    rows = [Row(Path(f"/r/{n}"), "passed", started=f"2026-11-0{n + 1}T00:00:00Z", target="t")
            for n in range(len(speeds))]  # fmt: skip
    for row, tps in zip(rows, speeds, strict=True):
        row.speed = type("Speed", (), {"decode_tps": tps, "way": "http", "depth_tokens": 0})()
    found = trend("t", rows, Path("/r"))
    assert found is not None
    marks = [mark for group in found.groups for mark in group.marks]
    assert len(marks) == len(speeds)
    assert all(LEFT <= mark.x <= RIGHT and TOP <= mark.y <= BOTTOM for mark in marks)


@given(st.floats(1e-6, 1e9))
def test_the_axis_begins_at_0_and_its_top_is_near(most: float) -> None:
    top, ticks = _scale(most)
    assert most <= top * 1.000001
    assert top <= 2 * most
    assert ticks[0] == (BOTTOM, "0")
    assert ticks[-1][0] == TOP
    assert 3 <= len(ticks) <= 7
