"""Whole logs: interleaved, cached, cut, and a real one of this project."""

from __future__ import annotations

from pathlib import Path

import pytest
from perflog import DATA, parse, read_log, tables_of

from keyelab.perf.requests import Row, shown
from keyelab.perf.requests import rows as of_tables


def rows(log: Path | list[str]) -> list[Row]:
    return of_tables(tables_of(log))


def test_interleaved_tasks_keep_their_own_curves() -> None:
    log = read_log(DATA / "interleaved.log")
    assert {n: task.state for n, task in log.tasks.items()} == {
        40: "finished",
        52: "unfinished",
        61: "finished",
    }
    assert [mark[1] for mark in log.tasks[52].marks] == [101, 119]
    own = tables_of(DATA / "interleaved.log")
    windows = own.samples.dropna(subset=["ms_per_token"])
    assert (1000 / windows.ms_per_token).tolist() == pytest.approx([30.0, 6.0])
    assert windows.depth_tokens.isna().tolist() == [False, True]
    assert all(row["note"].endswith("ran beside another task") for row in of_tables(own))


def test_two_ways_of_counting_become_one() -> None:
    log = read_log(DATA / "interleaved.log")
    assert log.tasks[40].decode_tps == pytest.approx(209 / 7)
    assert log.tasks[61].decode_tps == pytest.approx(50.0)
    assert [task.decode_tps_logged for task in log.finished] == [30.0, 50.0]


def test_a_cached_prompt_is_marked_and_is_no_prefill_speed() -> None:
    cached, whole = rows(DATA / "cached_prompt.log")
    assert cached["prefill_tps"] is None
    assert cached["note"] == "cached prompt (1 evaluated)"
    assert whole["prefill_tps"] == pytest.approx(90.0)


def test_a_task_without_an_end_keeps_what_is_known_of_it() -> None:
    log = read_log(DATA / "four_slots.log")
    states = {number: task.state for number, task in log.tasks.items()}
    assert states == {
        10: "finished", 12: "stopped", 15: "cancelled", 21: "unfinished", 33: "finished",
    }  # fmt: skip
    told = {row["task"]: row for row in rows(DATA / "four_slots.log")}
    assert (told[21]["decode_tokens"], told[21]["decode_tps_logged"]) == (30, 5.0)
    assert told[21]["note"] == "unfinished, 30 tokens at 5.00 tokens/s; ran beside another task"
    assert told[15]["note"].startswith("cancelled, no token written")
    assert told[12]["note"].startswith("stopped, no token written")
    assert log.damaged == [21]
    windows = tables_of(DATA / "four_slots.log").samples.dropna(subset=["ms_per_token"])
    assert dict(zip(windows.task, 1000 / windows.ms_per_token, strict=True)) == {10: 10.0, 21: 5.0}


def test_a_stopped_task_is_beside_later_ones_no_more() -> None:
    lines = (DATA / "four_slots.log").read_text().splitlines(keepends=True)
    alone = tables_of([line for line in lines if "task 12 |" in line or "task 33 |" in line])
    assert alone.tasks.beside.tolist() == [0, 0]


def test_one_evaluated_token_is_no_prefill_speed_without_a_release_either() -> None:
    cached, whole = rows(DATA / "cached_no_release.log")
    assert (cached["prefill_tps"], cached["context_tokens"]) == (None, 10)
    assert cached["note"] == "cached prompt (1 evaluated)"
    assert whole["prefill_tps"] == pytest.approx(85.714, abs=0.001)
    assert (cached["decode_tps_logged"], whole["decode_tps_logged"]) == (18.0, 3.47)
    unknown = rows(DATA / "four_slots.log")[-1]
    assert (unknown["prompt_tokens"], unknown["prefill_tps"]) == (1, None)
    assert "1 token evaluated: no prefill speed" in unknown["note"]


@pytest.mark.parametrize(
    "said",
    [
        "draft acceptance rate = 0.64479 (  167 accepted /   259 generated)",
        "draft acceptance = 0.64479 (  167 accepted /   259 generated)",
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.92",
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  "
        "2.92, acceptance rate per position = (0.805, 0.632, 0.483)",
    ],
)
def test_acceptance_is_read_in_each_wording(said: str) -> None:
    lines = (DATA / "speculative.log").read_text().splitlines(keepends=True)
    lines[4] = lines[4][: lines[4].index("draft")] + said + "\n"
    (row,) = rows(lines)
    assert "167 of 259 (0.645) drafted tokens accepted" in row["note"]
    assert (row["decode_tokens"], row["decode_tps_logged"]) == (300, 150.0)


def test_images_are_unknown_in_a_log_that_names_none() -> None:
    (row,) = rows(DATA / "speculative.log")
    assert row["images"] is None
    assert "images" not in shown([row])
    assert {"task", "note"} <= set(shown([row]))
    assert shown([]) == []


def test_a_cut_context_is_marked_and_its_length_unknown() -> None:
    (row,) = rows(DATA / "speculative.log")
    assert (row["decode_tokens"], row["decode_tps_logged"]) == (300, 150.0)
    assert "context was cut" in row["note"]
    assert row["context_tokens"] is None


def test_a_context_shift_marks_an_unfinished_task_too() -> None:
    lines = [
        "0.01.000.000 I slot operator(): id 0 | task 1 | new prompt, n_ctx_slot = 512, n_keep = 0, "
        "task.n_tokens = 400\n",
        "0.04.000.000 I slot print_timing: id 0 | task 1 | n_gen = 100, tg = 33.00 t/s\n",
        "0.05.000.000 W slot update_slots: id 0 | task 1 | slot context shift, n_keep = 0, "
        "n_left = 511, n_discard = 255\n",
        "0.07.000.000 I slot print_timing: id 0 | task 1 | n_gen = 200, tg = 33.00 t/s\n",
    ]
    own = tables_of(lines)
    (row,) = of_tables(own)
    assert (row["state"], row["context_tokens"]) == ("unfinished", 400)
    assert "context was cut" in row["note"]
    assert own.samples.depth_tokens.isna().all()
    kept = tables_of([lines[0], lines[1], lines[3]]).samples.depth_tokens
    assert kept.dropna().tolist() == [550]


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


CHAT = "I srv operator(): chat format: peg-native\n"
LAUNCH = "I slot launch_slot_: id {slot} | task {task} | processing task, is_child = 0\n"


def test_requests_are_taken_up_in_the_order_of_their_arrival() -> None:
    lines = [
        f"0.01.000.000 {CHAT}",
        f"0.01.100.000 {CHAT}",
        "0.01.200.000 " + LAUNCH.format(slot=0, task=1),
        "0.02.000.000 I slot release: id 0 | task 1 | stop processing: n_tokens = 5, "
        "truncated = 0\n",
        "0.02.100.000 " + LAUNCH.format(slot=0, task=2),
        f"0.03.000.000 {CHAT}",
        "0.03.500.000 " + LAUNCH.format(slot=1, task=3),
    ]
    log = parse(lines)
    assert [task.queue_s for task in log.tasks.values()] == pytest.approx([0.2, 1.0, 0.5])


def test_a_request_that_is_gone_before_its_turn_leaves_the_queue() -> None:
    lines = [
        f"0.01.000.000 {CHAT}",
        "0.01.000.100 " + LAUNCH.format(slot=0, task=1),
        f"0.02.000.000 {CHAT}",
        f"0.03.000.000 {CHAT}",
        "0.04.000.000 W srv stop: cancel task, id_task = 2\n",
        "0.05.000.000 I slot release: id 0 | task 1 | stop processing: n_tokens = 5, "
        "truncated = 0\n",
        "0.05.100.000 " + LAUNCH.format(slot=0, task=3),
    ]
    log = parse(lines)
    assert log.tasks[3].arrived_s == pytest.approx(3.0)
    assert 2 not in log.tasks


def test_a_request_that_a_free_server_did_not_take_up_was_refused() -> None:
    lines = [
        f"0.01.000.000 {CHAT}",
        "0.01.000.100 " + LAUNCH.format(slot=0, task=1),
        f"0.01.500.000 {CHAT}",
        "0.02.000.000 I slot release: id 0 | task 1 | stop processing: n_tokens = 5, "
        "truncated = 0\n",
        f"0.09.000.000 {CHAT}",
        "0.09.001.000 " + LAUNCH.format(slot=0, task=2),
    ]
    assert parse(lines).tasks[2].queue_s == pytest.approx(0.001)
