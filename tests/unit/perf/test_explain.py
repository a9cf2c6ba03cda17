"""What the article's log, and a real one of two slots, explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.perf import explain
from keyelab.perf.predict import predict
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.tables import Tables, read_tables

DATA = Path(__file__).parents[2] / "data" / "perf"


@pytest.fixture(scope="module")
def article() -> Tables:
    return explain.of(read_tables([ARTICLE_LOG]), 0)


@pytest.fixture(scope="module")
def two_slots() -> Tables:
    return explain.of(read_tables([DATA / "b10019_two_slots.log"]), 0)


def test_loading_is_split_by_the_logs_own_stamps(article: Tables, two_slots: Tables) -> None:
    parts = {row["part"]: row["seconds"] for row in explain.load(article)}
    assert parts["model opened, memory estimated; weights read, context made"] == pytest.approx(
        113.327, abs=0.001
    )
    assert parts["warm-up; projector read and tried"] == pytest.approx(15.443, abs=0.001)
    assert sum(parts.values()) == pytest.approx(129.305, abs=0.001)
    assert [row["part"] for row in explain.load(two_slots)][3:5] == [
        "warm-up", "projector read and tried",
    ]  # fmt: skip


def test_the_articles_decode_line(article: Tables) -> None:
    every = explain.decode_line(article, shared=True)
    assert every is not None
    line, basis = every
    assert (line.n, basis) == (148, "windows")
    assert line.slope == pytest.approx(0.016, abs=0.0005)
    found = explain.decode(article)
    assert found is not None
    assert (found["n"], found["left_out_beside_others"]) == (145, 3)
    assert found["slope_low"] < 0.016 < found["slope_high"]
    assert found["slope_ms_per_token_of_depth"] == pytest.approx(0.0169, abs=0.0005)
    assert found["worth_n"] < 50
    assert found["extrapolated"]
    assert found["halves_low"] < found["speed_halves_at_tokens"] < found["halves_high"]


def test_the_articles_images_cache_queue_and_graphs(article: Tables) -> None:
    images = explain.images(article)
    assert images is not None
    assert (images["images"], images["tokens_per_image"]) == (10, 1197)
    assert images["encode_ms"] is None
    assert (images["least_ms"], images["most_ms"]) == pytest.approx((4774.9, 40297.5), abs=0.1)
    assert images["per_1000_low"] > 0
    cache = explain.cache(article)
    assert cache is not None
    assert (cache["updates_ms"], cache["idle_slots_ms"]) == pytest.approx(
        (369.23, 346.12), abs=0.01
    )
    assert cache["kib_per_token"] == pytest.approx(114.05, abs=0.01)
    assert cache["mib_per_s"] == pytest.approx(48.0, abs=0.1)
    queue = explain.queueing(article)
    assert (queue["tasks"], queue["ran_beside_others"], queue["most_beside"]) == (4, 2, 1)
    assert explain.graphs(article) == {"reused": 0, "decode_steps": 1990, "never": True}


def test_what_a_log_lacks_is_unknown() -> None:
    old = explain.of(read_tables([DATA / "2023_text.log"]), 0)
    assert explain.load(old) == []
    assert explain.decode(old) is None
    assert explain.images(old) is None
    assert explain.cache(old) is None
    assert explain.graphs(old) is None
    assert explain.queueing(old)["median_wait_s"] is None
    assert explain.queueing(old)["ran_beside_others"] is None
    told = predict(old, 4, 100)
    assert told.total_s is None
    assert told.notes


def test_a_server_with_two_slots(two_slots: Tables) -> None:
    queue = explain.queueing(two_slots)
    assert queue["longest_wait_s"] == pytest.approx(8.853, abs=0.001)
    assert queue["most_beside"] == 1
    graphs = explain.graphs(two_slots)
    assert graphs is not None
    assert not graphs["never"]
    images = explain.images(two_slots)
    assert images is not None
    assert images["encode_ms"] > images["prefill_ms"] > 0


def test_the_articles_own_request_is_predicted(article: Tables) -> None:
    told = predict(article, frames=10, answer_tokens=1703)
    assert told.total_s is not None
    value, low, high = told.total_s
    real_s = (140_567.49 + 494_667.69) / 1000
    assert low is not None
    assert high is not None
    assert low < real_s < high
    assert value == pytest.approx(real_s, rel=0.02)
    assert not any("measured at" in note for note in told.notes)


def test_a_prediction_beyond_what_was_measured_says_so(article: Tables) -> None:
    near, far = predict(article, 10, 1703), predict(article, 40, 1703)
    assert any("only" in note for note in far.notes)
    assert any("beyond" in note for note in far.notes)
    for part in ("images_s", "decode_s"):
        small, large = getattr(near, part), getattr(far, part)
        assert large[2] - large[1] > small[2] - small[1]


def test_a_question_is_counted_where_text_prompts_tell_its_speed(two_slots: Tables) -> None:
    told = predict(two_slots, 0, 100, question_tokens=50)
    assert told.question_s is None
    assert any("question" in note for note in told.notes)
    old = explain.of(read_tables([DATA / "2023_text.log"]), 0)
    assert predict(old, 0, 100, 50).question_s == pytest.approx(0.5)
