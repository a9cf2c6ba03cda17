"""Whole logs: interleaved, cached, speculative, cut, old, and a real one of this project."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.perf.log import parse
from keyelab.perf.summary import Summary, read_summary, summarize
from keyelab.perf.table import rows
from keyelab.perf.tasks import overlapped, weighted_decode_tps

DATA = Path(__file__).parents[2] / "data" / "perf"


def read(name: str) -> Summary:
    return read_summary(DATA / name)


def test_interleaved_tasks_keep_their_own_curves() -> None:
    log = read("interleaved.log")
    assert {n: task.state for n, task in log.tasks.items()} == {
        40: "finished",
        52: "unfinished",
        61: "finished",
    }
    assert [mark.decoded for mark in log.tasks[52].marks] == [101, 119]
    assert log.tasks[52].windows[0].tps == pytest.approx(6.0)
    assert log.damaged == [16], "the cut last line is no '1 token'"
    assert overlapped(log.tasks.values()) == {40, 52, 61}
    assert weighted_decode_tps(log.finished) == pytest.approx(1000 * 411 / 11000)
    assert "119 tokens at 6.0 t/s" in rows(log)[1]["note"]


def test_two_ways_of_counting_become_one() -> None:
    log = read("interleaved.log")
    assert (log.tasks[40].basis, log.tasks[61].basis) == ("n/t", "(n-1)/t")
    assert log.tasks[40].decode_tps == pytest.approx(209 / 7)
    assert log.tasks[61].decode_tps == pytest.approx(50.0)


def test_a_cached_prompt_is_marked_and_is_no_prefill_speed() -> None:
    log = read("cached_prompt.log")
    assert log.tasks[77].prefill_tps is None
    assert rows(log)[0]["note"] == "cached prompt (1 evaluated)"
    assert log.tasks[90].prefill_tps == pytest.approx(90.0)
    assert [row["log_line"] for row in rows(log)] == [1, 6]


def test_speculative_lines_do_not_change_the_counts() -> None:
    (row,) = rows(read("speculative.log"))
    assert (row["decode_tokens"], row["decode_tps_logged"]) == (300, 150.0)
    assert "drafts accepted 0.705 (141/200)" in row["note"]
    assert "context was cut" in row["note"]


def test_old_multi_line_timings_are_read() -> None:
    log = read("multi_line.log")
    (task,) = log.finished
    assert (task.prompt_tokens, task.decode_tokens, task.total_ms) == (20, 40, 2500.0)
    assert task.context_tokens == 20
    assert log.ready_s is None


def test_a_wrapped_coloured_cut_log_gives_one_finished_task(tmp_path: Path) -> None:
    lines = [
        b"\x1b[34m0.25.100.000 \x1b[32mI \x1b[0mslot print_timing: id  3 | task 4 |"
        b" n_decoded =    100, tg =  25.00 t/s, tg_3s =  25.00 t/s",
        b"0.28.000.000 I slot print_timing: id  3 | task 4 | prompt eval time =    1000.00 ms /"
        b"     8 tokens (  125.00 ms per token,     8.00 tokens per second)",
        b"0.28.000.001 I slot print_timing: id  3 | task 4 |        eval time =    8000.00 ms /"
        b"   200 tokens (   40.00 ms per token,    25.00 tokens per second)",
        b"0.28.100.000 I init: chat template, example_format: '\xe4\xbd\xa0\xe5\xa5",
        b"0.29.000.000 I slot print_timing: id  3 | task 9 | prompt eval time =    10",
    ]
    path = tmp_path / "server.log"
    path.write_bytes(b"\r\n".join(b"server-1  | " + line for line in lines))
    log = read_summary(path)
    (task,) = log.finished
    assert (task.prefill_tps, task.decode_tps_logged) == (8.0, 25.0)
    assert log.damaged == [5]


def test_a_real_log_of_this_projects_demo_server_is_read() -> None:
    log = read("b10019_cpu_demo.log")
    assert log.ready_s == pytest.approx(1.252331)
    assert log.weights_s == pytest.approx(0.011063)
    assert (log.slots, log.context_tokens, log.damaged) == (1, 4096, [])
    told = [(t.context_tokens, t.cached_tokens, t.images, t.state) for t in log.tasks.values()]
    assert told == [
        (74, 0, 4, "finished"),
        (74, 8, 4, "finished"),
        (74, 73, 0, "finished"),
    ]
    first, second, third = log.finished
    assert [encode.tokens for encode in first.encodes] == [9, 9, 9, 9]
    assert not any(encode.with_prefill for encode in first.encodes)
    assert first.basis == "n/t"
    assert second.prefill_tps == pytest.approx(5327.7, rel=1e-3)
    assert third.cached_prompt
    assert all(0 < (task.queue_ms or 0) < 50 for task in log.finished)


def test_inf_and_nan_are_no_measurement() -> None:
    text = (
        "0.01.000.000 I slot print_timing: id 0 | task 1 | prompt eval time = 0.00 ms / 1 tokens "
        "( 0.00 ms per token, inf tokens per second)\n"
        "0.01.000.001 I slot print_timing: id 0 | task 1 | eval time = 0.00 ms / 0 tokens "
        "( -nan ms per token, -nan tokens per second)\n"
    )
    (task,) = summarize(parse(text.splitlines(keepends=True))).finished
    assert (task.decode_tps, task.decode_tps_logged, task.prefill_tps) == (None, None, None)


def test_only_the_last_server_run_in_a_file_is_kept() -> None:
    twice = (DATA / "b10019_cpu_demo.log").read_text().splitlines(keepends=True) * 2
    log = summarize(parse(twice))
    assert log.runs == 2
    once = read("b10019_cpu_demo.log")
    assert log.records == 2 * once.records
    assert [row["decode_ms"] for row in rows(log)] == [row["decode_ms"] for row in rows(once)]


def test_queueing_is_unknown_when_several_requests_wait() -> None:
    lines = [
        "0.01.000.000 I srv operator(): chat format: peg-native\n",
        "0.01.100.000 I srv operator(): chat format: peg-native\n",
        "0.01.200.000 I slot launch_slot_: id 0 | task 1 | processing task, is_child = 0\n",
        "0.02.000.000 I srv operator(): chat format: peg-native\n",
        "0.02.500.000 I slot launch_slot_: id 0 | task 2 | processing task, is_child = 0\n",
    ]
    log = summarize(parse(lines))
    assert log.tasks[1].queue_ms is None
    assert log.tasks[2].queue_ms == pytest.approx(500.0)


LAUNCH = "0.01.{0:03d}.000 I slot launch_slot_: id 0 | task {0} | processing task, is_child = 0\n"


@pytest.mark.parametrize(
    "last",
    [
        "0.02.000.000 W srv stop: cancel task, id_task = 34",
        "0.02.000.000 I slot process_mtmd: id 0 | task 3 | encoding mtmd batch from idx = 5, "
        "n_chunks = 12",
        "0.02.000.000 I slot operator(): id 0 | task 3 | new prompt, n_ctx_slot = 4096, "
        "n_keep = 0, task.n_tokens = 74",
    ],
)
def test_a_number_cut_short_is_not_taken_for_a_whole_one(last: str) -> None:
    for end in range(len(last) + 1):
        log = summarize(parse([LAUNCH.format(3), LAUNCH.format(34), last[:end]]))
        assert {task.state for task in log.tasks.values()} == {"unfinished"}
        assert (log.tasks[3].images, log.tasks[3].context_tokens) == (0, None)
    whole = summarize(parse([LAUNCH.format(3), LAUNCH.format(34), last + "\n"]))
    assert (
        whole.tasks[34].state == "cancelled"
        or whole.tasks[3].images == 12
        or whole.tasks[3].context_tokens == 74
    )


def test_a_file_that_is_no_log_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing of interest\n" * 10)
    with pytest.raises(KeyelabError, match="expected llama-server's lines"):
        read_summary(path)
