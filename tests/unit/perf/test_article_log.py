"""The article's log, number for number."""

from __future__ import annotations

import pytest

from keyelab.perf.article import LOG, article_summary, sentence
from keyelab.perf.log import parse, read_log
from keyelab.perf.summary import Summary, summarize
from keyelab.perf.table import rows, side_by_side, spread, windows
from keyelab.perf.tasks import Task, overlapped


@pytest.fixture(scope="module")
def log() -> Summary:
    """The article's run."""
    return article_summary()


def test_it_has_291_records_in_order() -> None:
    records = list(read_log(LOG))
    times = [record.time_s for record in records]
    assert len(records) == 291
    assert [sum(r.level == level for r in records) for level in "IW"] == [284, 7]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (0.268210, 839.922125)


def test_flattened_to_one_paragraph_it_says_the_same(log: Summary) -> None:
    text = " ".join(LOG.read_text(encoding="utf-8").split())
    flat = summarize(parse([text]))
    assert flat.records == 291
    told, again = rows(log), rows(flat)
    assert [{**row, "log_line": 1} for row in told] == again


def test_loading_takes_129_seconds_most_of_it_for_the_weights(log: Summary) -> None:
    assert log.ready_s == pytest.approx(129.305309)
    assert log.weights_s == pytest.approx(113.597137)
    assert (log.slots, log.context_tokens, log.runs, log.damaged) == (4, 262144, 1, [])
    assert 369.13 in log.cache_updates_ms


@pytest.mark.parametrize(
    ("task", "numbers"),
    [
        (0, (2365.68, 10, 8140.72, 147, 18.06, 10506.40)),
        (148, (53.37, 1, 7887.22, 143, 18.13, 7940.58)),
        (292, (140567.49, 11995, 494667.69, 1703, 3.44, 635235.18)),
    ],
)
def test_three_tasks_finish(log: Summary, task: int, numbers: tuple[float, ...]) -> None:
    found = log.tasks[task]
    assert found.state == "finished"
    assert (
        found.prompt_ms, found.prompt_tokens, found.decode_ms, found.decode_tokens,
        found.decode_tps_logged, found.total_ms,
    ) == numbers  # fmt: skip
    assert found.basis in ("n/t", None) if task == 292 else found.basis == "n/t"


def test_recomputed_rates_match_the_printed_ones(log: Summary) -> None:
    assert log.tasks[292].prefill_tps == pytest.approx(85.33, abs=0.01)
    for task in log.finished:
        again = 1000 * (task.decode_tokens or 0) / (task.decode_ms or 1)
        assert again == pytest.approx(task.decode_tps_logged, abs=0.01)


def test_the_fourth_is_cancelled_by_its_client(log: Summary) -> None:
    assert list(log.tasks) == [0, 148, 292, 343]
    assert log.tasks[343].state == "cancelled"
    assert overlapped(log.tasks.values()) == {292, 343}


def test_the_second_prompt_came_from_the_cache(log: Summary) -> None:
    cached: Task = log.tasks[148]
    assert (cached.context_tokens, cached.cached_tokens, cached.prefill_tps) == (10, 9, None)


def test_ten_images_of_1197_tokens_are_encoded_one_by_one(log: Summary) -> None:
    encodes = log.tasks[292].encodes
    assert [encode.chunks for encode in encodes] == [1] * 10
    assert [encode.tokens for encode in encodes] == [1197] * 9 + [None]
    seconds = [
        e.end_s - e.start_s for e in encodes if e.end_s is not None and e.start_s is not None
    ]
    assert seconds == pytest.approx(
        [4.775, 6.379, 10.474, 8.845, 11.325, 17.561, 11.951, 13.213, 40.297], abs=0.001
    )
    assert all(encode.with_prefill for encode in encodes[:9])


def test_its_148_windows_agree_with_the_printed_rates(log: Summary) -> None:
    found = log.tasks[292].windows
    assert len(found) == 148
    for window in found:
        assert window.tps == pytest.approx(window.tps_logged, abs=0.0051)
    depths = [window.depth_tokens for window in found if window.depth_tokens]
    assert (depths[0], depths[-1]) == (12106, 13697)
    frame = windows(log)
    slope = ((1000 / frame.tps).cov(frame.depth_tokens)) / frame.depth_tokens.var()
    assert slope == pytest.approx(0.016, abs=0.0005)


def test_four_and_a_half_tokens_a_second_are_nowhere_in_it(log: Summary) -> None:
    (row,) = spread(log)
    assert (row["windows"], row["task"]) == (148, 292)
    assert 3.3 < row["median_tps"] < 3.6
    rates = [mark.tps_3s for task in log.tasks.values() for mark in task.marks]
    assert not [rate for rate in rates if rate is not None and 4.0 < rate < 5.0]


def test_the_sentence_gives_the_logs_own_numbers(log: Summary) -> None:
    said = sentence(log)
    assert "18.06 tokens/s" in said
    assert "3.44 at 12,846" in said
    assert "factor of 5.2" in said
    assert "nothing about" in sentence(Summary())


def test_side_by_side_has_a_column_a_run(log: Summary) -> None:
    table = side_by_side([("here", Summary(), None), ("article", log, log.tasks[292])])
    told = {row["quantity"]: (row["here"], row["article"]) for row in table}
    assert told["video request: images"] == (None, 10)
    assert told["start to ready (s)"] == (None, pytest.approx(129.305309))
