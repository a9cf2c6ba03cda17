"""Tasks taken together: weighted, and only those of one kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.perf.reader import ARTICLE_LOG, read_log
from keyelab.perf.server import ServerLog
from keyelab.perf.total import totals

DATA = Path(__file__).parents[2] / "data" / "perf"


def test_finished_tasks_are_weighted_by_their_tokens() -> None:
    (row,) = totals(read_log(DATA / "four_slots.log"))
    assert row["tasks"] == "10, 33"
    assert (row["decode_tokens"], row["decode_s"]) == (158, pytest.approx(10.9))
    assert row["decode_tokens_per_s"] == pytest.approx(14.50, abs=0.005)
    assert (row["prompt_tokens"], row["prompt_tokens_per_s"]) == (40, 100.0)


def test_a_short_and_a_deep_request_are_not_mixed() -> None:
    short, deep = totals(read_log(DATA / "cached_no_release.log"))
    assert (short["tasks"], short["decode_tokens_per_s"]) == ("148", 18.0)
    assert (short["prompt_tokens"], short["prompt_tokens_per_s"]) == (None, None)
    assert deep["decode_tokens_per_s"] == pytest.approx(3.47, abs=0.005)
    assert deep["prompt_tokens_per_s"] == pytest.approx(85.71, abs=0.005)
    assert short["images"] is None


def test_requests_with_images_stand_apart_at_one_depth_too() -> None:
    told = [(row["tasks"], row["images"]) for row in totals(read_log(DATA / "b10019_cpu_demo.log"))]
    assert told == [("21", 0), ("0, 11", 8)]


def test_the_articles_two_kinds() -> None:
    text, video = totals(read_log(ARTICLE_LOG))
    assert (text["tasks"], video["tasks"]) == ("0, 148", "292")
    assert text["decode_tokens_per_s"] == pytest.approx(290 / 16.02794)
    assert (text["prompt_tokens"], video["images"]) == (10, 10)
    assert totals(ServerLog()) == []
