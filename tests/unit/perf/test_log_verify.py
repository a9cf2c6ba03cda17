"""One request, two accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.facts import FileFact, VideoFacts
from keyelab.perf.reader import ARTICLE_LOG, read_log
from keyelab.perf.server import ServerLog
from keyelab.perf.verify import client_checks, find_task, log_checks, main_task

DATA = Path(__file__).parents[2] / "data" / "perf"
TIMINGS = {"prompt_n": 66, "prompt_ms": 12.388, "predicted_n": 6, "predicted_ms": 1.097}


def video(total_s: float = 0.03, **timings: float) -> VideoFacts:
    return VideoFacts(
        video=FileFact(path="v.mp4", sha256="0", size_bytes=1),
        duration_s=4.0,
        frames=[],
        coverage=1.0,
        prompt="q",
        answer="a",
        reasoning="",
        finish_reason="stop",
        expected=[],
        mode="frames",
        tokens_per_frame=None,
        ttft_s=0.01,
        total_s=total_s,
        usage={},
        timings=timings,
    )


def test_the_request_is_found_by_its_tokens_and_its_milliseconds() -> None:
    log = read_log(DATA / "b10019_cpu_demo.log")
    found = find_task(log, TIMINGS)
    assert found is log.finished[1]
    assert find_task(log, {**TIMINGS, "prompt_ms": 12.5}) is None
    assert find_task(log, {}) is None
    assert [item.status for item in client_checks(found, video(**TIMINGS))] == ["ok", "ok"]


@pytest.mark.parametrize(("total_s", "status"), [(0.01, "warned"), (0.5, "ok"), (5.0, "warned")])
def test_the_clients_clock_must_run_a_little_longer(total_s: float, status: str) -> None:
    assert client_checks(None, video(total_s, **TIMINGS))[1].status == status


def test_a_request_that_the_log_does_not_hold_fails_and_no_timings_are_unknown() -> None:
    assert client_checks(None, video(**TIMINGS))[0].status == "failed"
    assert [item.status for item in client_checks(None, video())] == ["unknown", "unknown"]


def test_the_main_request_of_the_article_is_its_video() -> None:
    task = main_task(read_log(ARTICLE_LOG))
    assert task is not None
    assert task.id == 292
    deep = main_task(read_log(DATA / "cached_no_release.log"))
    assert deep is not None
    assert deep.id == 292
    assert main_task(ServerLog()) is None


def test_a_log_is_judged() -> None:
    good = {item.name: item.status for item in log_checks(read_log(ARTICLE_LOG))}
    assert set(good.values()) == {"ok"}
    cut = {item.name: item.status for item in log_checks(read_log(DATA / "speculative.log"))}
    assert cut["context kept whole"] == "warned"
    assert cut["time of readiness"] == "unknown"
    doubts = {item.name: item for item in log_checks(read_log(DATA / "four_slots.log"))}
    assert doubts["every task has an end"].status == "warned"
    assert doubts["every task has an end"].found == (
        "task 21 unfinished, 30 tokens at 5.00 tokens/s"
    )
    assert doubts["no damaged line"].status == "warned"
    assert doubts["no damaged line"].found == "1 left out: line 21"
    many = log_checks(ServerLog(damaged=[2, 3, 5, 7, 11, 13, 17]))[-1]
    assert many.found == "7 left out: line 2, 3, 5, 7, 11, …"
    assert {i.name: i.status for i in log_checks(ServerLog())}["finished tasks"] == "failed"
