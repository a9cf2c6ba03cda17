"""One request, two accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.facts import FileFact, VideoFacts
from keyelab.perf.explain import last
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.requests import main, rows
from keyelab.perf.tables import Tables, read_tables
from keyelab.perf.verify import client_checks, find_task, log_checks, sweep_checks

DATA = Path(__file__).parents[2] / "data" / "perf"
TIMINGS = {"prompt_n": 66, "prompt_ms": 12.388, "predicted_n": 6, "predicted_ms": 1.097}


def log(path: Path) -> Tables:
    return last(read_tables([path]))


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
    asked = rows(log(DATA / "b10019_cpu_demo.log"))
    found = find_task(asked, TIMINGS)
    assert found is asked[1]
    assert find_task(asked, {**TIMINGS, "prompt_ms": 12.5}) is None
    assert find_task(asked, {}) is None
    assert [item.status for item in client_checks(found, video(**TIMINGS))] == ["ok", "ok"]


@pytest.mark.parametrize(("total_s", "status"), [(0.01, "warned"), (0.5, "ok"), (5.0, "warned")])
def test_the_clients_clock_must_run_a_little_longer(total_s: float, status: str) -> None:
    assert client_checks(None, video(total_s, **TIMINGS))[1].status == status


def test_a_request_that_the_log_does_not_hold_fails_and_no_timings_are_unknown() -> None:
    assert client_checks(None, video(**TIMINGS))[0].status == "failed"
    assert [item.status for item in client_checks(None, video())] == ["unknown", "unknown"]


def test_the_main_request_of_the_article_is_its_video() -> None:
    for path in (ARTICLE_LOG, DATA / "cached_no_release.log"):
        task = main(rows(log(path)))
        assert task is not None
        assert task["task"] == 292
    assert main([]) is None


def test_a_log_is_judged() -> None:
    good = {item.name: item.status for item in log_checks(log(ARTICLE_LOG))}
    assert set(good.values()) == {"ok"}
    cut = {item.name: item.status for item in log_checks(log(DATA / "speculative.log"))}
    assert cut["context kept whole"] == "warned"
    assert cut["time of readiness"] == "unknown"
    doubts = {item.name: item for item in log_checks(log(DATA / "four_slots.log"))}
    assert doubts["every task has an end"].status == "warned"
    assert doubts["every task has an end"].found == (
        "task 21 unfinished, 30 tokens at 5.00 tokens/s; ran beside another task"
    )
    assert doubts["no damaged line"].status == "warned"
    assert doubts["no damaged line"].found == "1 left out"


def test_a_log_without_a_request_fails(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("0.00.100.000 I main: server is listening on http://127.0.0.1:8080\n")
    assert {i.name: i.status for i in log_checks(log(path))}["finished tasks"] == "failed"


def test_a_sweep_is_judged() -> None:
    def way(name: str, ms: float) -> dict[str, object]:
        return {"way": name, "context_tokens": 512, "ms_per_token": ms}

    answered = [{"error": ""}]
    near = sweep_checks([way("http", 2.0), way("llama-bench", 1.5)], answered)
    assert [item.status for item in near] == ["ok", "ok"]
    far = sweep_checks([way("http", 4.0), way("llama-bench", 1.5)], [{"error": "HTTP 500"}])
    assert [item.status for item in far] == ["failed", "warned"]
    assert "2.67 times" in far[1].found
    assert sweep_checks([way("http", 4.0)], answered)[1].status == "unknown"
