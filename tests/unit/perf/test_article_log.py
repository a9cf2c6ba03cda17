"""The article's log, number for number."""

from __future__ import annotations

import pytest
from perflog import Log, read_log

from keyelab.perf import explain, requests
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.tables import Tables, read_tables


@pytest.fixture(scope="module")
def log() -> Log:
    """The article's run."""
    return read_log(ARTICLE_LOG)


def test_loading_takes_129_seconds_most_of_it_for_the_weights(log: Log) -> None:
    assert log.ready_s == pytest.approx(129.305309)
    assert log.weights_s == pytest.approx(113.597137)
    assert (log.slots, log.context_tokens) == (4, 262144)


@pytest.mark.parametrize(
    ("task", "numbers"),
    [
        (0, (2365.68, 10, 8140.72, 147, 18.06)),
        (148, (53.37, 1, 7887.22, 143, 18.13)),
        (292, (140567.49, 11995, 494667.69, 1703, 3.44)),
    ],
)
def test_three_tasks_finish(log: Log, task: int, numbers: tuple[float, ...]) -> None:
    found = log.tasks[task]
    assert found.state == "finished"
    assert (
        found.prompt_ms, found.prompt_tokens, found.decode_ms, found.decode_tokens,
        found.decode_tps_logged,
    ) == numbers  # fmt: skip


def test_recomputed_rates_match_the_printed_ones(log: Log) -> None:
    assert log.tasks[292].prefill_tps == pytest.approx(85.33, abs=0.01)
    for task in log.finished:
        again = 1000 * (task.decode_tokens or 0) / (task.decode_ms or 1)
        assert again == pytest.approx(task.decode_tps_logged, abs=0.01)


def test_the_fourth_is_cancelled_by_its_client(log: Log) -> None:
    assert list(log.tasks) == [0, 148, 292, 343]
    assert log.tasks[343].state == "cancelled"


def test_the_second_prompt_came_from_the_cache(log: Log) -> None:
    cached = log.tasks[148]
    assert (cached.context_tokens, cached.cached_tokens, cached.prefill_tps) == (10, 9, None)


def test_ten_images_are_encoded_one_by_one(log: Log) -> None:
    encodes = log.tasks[292].encodes
    assert [encode.images for encode in encodes] == [1] * 10
    seconds = [encode.end_s - encode.start_s for encode in encodes if encode.end_s is not None]
    assert seconds == pytest.approx(
        [4.775, 6.379, 10.474, 8.845, 11.325, 17.561, 11.951, 13.213, 40.297, 15.645], abs=0.001
    )
    assert all(encode.with_prefill for encode in encodes)


@pytest.fixture(scope="module")
def own() -> Tables:
    """The same as tables."""
    return explain.last(read_tables([ARTICLE_LOG]))


def test_two_of_them_run_beside_each_other(own: Tables) -> None:
    assert set(own.tasks.task[own.tasks.beside > 0]) == {292, 343}


def test_its_148_windows_slow_down_with_depth(own: Tables) -> None:
    frame = own.samples.dropna(subset=["ms_per_token"])
    assert len(frame) == 148
    depth = frame.depth_tokens.astype(float)
    assert frame.ms_per_token.cov(depth) / depth.var() == pytest.approx(0.016, abs=0.0005)
    assert 3.3 < (1000 / frame.ms_per_token).median() < 3.6


def test_four_and_a_half_tokens_a_second_are_nowhere_in_it(own: Tables) -> None:
    assert (1000 / own.samples.ms_per_token.dropna()).max() < 4.0
    assert not any(4 < rate < 17 for rate in own.tasks.decode_tps.dropna())


def test_side_by_side_has_a_column_a_run(own: Tables) -> None:
    rows = requests.rows(own)
    table = requests.side_by_side([("here", own, None), ("article", own, requests.main(rows))])
    told = {row["quantity"]: (row["here"], row["article"]) for row in table}
    assert told["video request: images"] == (None, 10)
    assert told["start to ready (s)"][1] == pytest.approx(129.305309)
    assert told["speed halves at (tokens)"][1] == pytest.approx(4191, abs=1)
