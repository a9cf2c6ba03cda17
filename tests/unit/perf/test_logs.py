"""Whole logs: interleaved, cached, cut, and a real one of this project."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.perf.reader import parse, read_log
from keyelab.perf.table import rows, spread, windows
from keyelab.perf.task import overlapped

DATA = Path(__file__).parents[2] / "data" / "perf"


def test_interleaved_tasks_keep_their_own_curves() -> None:
    log = read_log(DATA / "interleaved.log")
    assert {n: task.state for n, task in log.tasks.items()} == {
        40: "finished",
        52: "unfinished",
        61: "finished",
    }
    assert [decoded for _, decoded in log.tasks[52].marks] == [101, 119]
    assert windows(log).tps.tolist() == pytest.approx([30.0])
    assert spread(log)[0]["depth_tokens"] == "260 to 260"
    assert overlapped(log.tasks.values()) == {40, 52, 61}
    assert {row["note"] for row in rows(log)} == {"ran beside another task"}


def test_two_ways_of_counting_become_one() -> None:
    log = read_log(DATA / "interleaved.log")
    assert log.tasks[40].decode_tps == pytest.approx(209 / 7)
    assert log.tasks[61].decode_tps == pytest.approx(50.0)
    assert [task.decode_tps_logged for task in log.finished] == [30.0, 50.0]


def test_a_cached_prompt_is_marked_and_is_no_prefill_speed() -> None:
    cached, whole = rows(read_log(DATA / "cached_prompt.log"))
    assert cached["prefill_tps"] is None
    assert cached["note"] == "cached prompt (1 evaluated)"
    assert whole["prefill_tps"] == pytest.approx(90.0)


def test_a_cut_context_is_marked_and_its_length_unknown() -> None:
    (row,) = rows(read_log(DATA / "speculative.log"))
    assert (row["decode_tokens"], row["decode_tps_logged"]) == (300, 150.0)
    assert "context was cut" in row["note"]
    assert row["context_tokens"] is None


def test_a_real_log_of_this_projects_demo_server_is_read() -> None:
    log = read_log(DATA / "b10019_cpu_demo.log")
    assert log.ready_s == pytest.approx(1.252331)
    assert log.weights_s == pytest.approx(0.011063)
    assert (log.slots, log.context_tokens) == (1, 4096)
    told = [(t.context_tokens, t.cached_tokens, t.images, t.state) for t in log.tasks.values()]
    assert told == [
        (74, 0, 4, "finished"),
        (74, 8, 4, "finished"),
        (74, 73, 0, "finished"),
    ]
    first, second, third = log.finished
    assert not any(encode.with_prefill for encode in first.encodes)
    assert all(0 < (e.end_s or 0) - e.start_s < 0.01 for e in second.encodes)
    assert second.prefill_tps == pytest.approx(5327.7, rel=1e-3)
    assert third.cached_prompt
    for task in log.finished:
        assert task.arrived_s is not None
        assert task.launched_s is not None
        assert 0 < task.launched_s - task.arrived_s < 0.05


def test_inf_and_nan_are_no_measurement() -> None:
    lines = [
        "0.01.000.000 I slot print_timing: id 0 | task 1 | prompt eval time = 0.00 ms / 1 tokens "
        "( 0.00 ms per token, inf tokens per second)\n",
        "0.01.000.001 I slot print_timing: id 0 | task 1 | eval time = 0.00 ms / 0 tokens "
        "( -nan ms per token, -nan tokens per second)\n",
    ]
    (task,) = parse(lines).finished
    assert (task.decode_tps, task.decode_tps_logged, task.prefill_tps) == (None, None, None)


def test_only_the_last_server_run_in_a_file_is_kept() -> None:
    once = (DATA / "b10019_cpu_demo.log").read_text().splitlines(keepends=True)
    first = [line.replace("task 0 |", "task 5 |") for line in once]
    assert parse([*first, *once]) == parse(once)


def test_queueing_is_unknown_when_several_requests_wait() -> None:
    lines = [
        "0.01.000.000 I srv operator(): chat format: peg-native\n",
        "0.01.100.000 I srv operator(): chat format: peg-native\n",
        "0.01.200.000 I slot launch_slot_: id 0 | task 1 | processing task, is_child = 0\n",
        "0.02.000.000 I srv operator(): chat format: peg-native\n",
        "0.02.500.000 I slot launch_slot_: id 0 | task 2 | processing task, is_child = 0\n",
    ]
    log = parse(lines)
    assert log.tasks[1].arrived_s is None
    assert log.tasks[2].arrived_s == pytest.approx(2.0)
