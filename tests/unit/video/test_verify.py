"""Verdicts on frames and answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.video.budget import Budget
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick, Sampling
from keyelab.video.verify import (
    answer_checks,
    arrival_check,
    fact_checks,
    question_rows,
    rows,
    sample_checks,
    says,
)

INFO = VideoInfo(Path("v"), "mp4", "h264", 96, 96, 40, (), 0.1, 4.0, 4.0)
PICKS = [Pick(i, i, i + 0.5, i + 0.5) for i in range(4)]


BUDGET = Budget(frame_tokens=10, text_tokens=54, answer_tokens=9, slot_tokens=4096, measured=True)


def frames(picks: list[Pick], width: int = 96, height: int = 96) -> list[Frame]:
    return [Frame(i, pick, b"", width, height) for i, pick in enumerate(picks, 1)]


def status(checks: list[Check], name: str) -> str:
    return next(item.status for item in checks if item.name == name)


def test_a_covered_video_passes() -> None:
    checks = sample_checks(INFO, Sampling(4, 4, 4, 4, 1.0, 1.0))
    assert {item.status for item in checks} == {"ok"}


def test_half_a_video_fails_and_says_how_many_frames_were_decodable() -> None:
    checks = sample_checks(INFO, Sampling(4, 4, 2, 2, 0.5, 2.5))
    assert status(checks, "coverage of the video") == "failed"
    assert "largest gap 2.50 s" in checks[0].found
    assert status(checks, "frames sent") == "warned"
    assert checks[1].found == "2: 4 different ones, 2 of them can be decoded"


def test_unknown_times_are_unknown_and_never_a_pass() -> None:
    unknown = sample_checks(replace(INFO, duration_s=None), Sampling(2, 2, 2, 2, None, None))
    assert status(unknown, "coverage of the video") == "unknown"


def test_a_file_shorter_than_it_states_is_said() -> None:
    checks = sample_checks(replace(INFO, duration_s=1.9), Sampling(1, 1, 1, 1, 1.0, 1.0))
    assert status(checks, "video is whole") == "warned"


@pytest.mark.parametrize(
    ("said", "fact", "verdict"),
    [
        ("A Red Circle\n moves right.", "a red circle  moves right", "ok"),
        ("a red circle moves left", "a red circle moves right", "failed"),
        ("画面中有一个红色圆形", "red|红色", "ok"),
        ("a RED thing", "red | 红色", "ok"),
        ("a blue thing", "red|红色", "failed"),
        ("", "红色", "failed"),
        ("anything", "", "failed"),
        ("anything", "|", "failed"),
        ("anything", "red|", "failed"),
    ],
)
def test_an_expected_fact_is_looked_for_in_any_case_with_alternatives(
    said: str, fact: str, verdict: str
) -> None:
    assert [item.status for item in fact_checks(said, [fact])] == [verdict]


def test_each_fact_has_its_own_verdict() -> None:
    checks = fact_checks("a red square", ["red", "circle"])
    assert [(item.name, item.status) for item in checks] == [
        ("says 'red'", "ok"),
        ("says 'circle'", "failed"),
    ]
    assert fact_checks("anything", []) == []


@pytest.mark.parametrize(
    ("answer", "fact", "said"),
    [
        ("a blue disc, centered", "red", False),
        ("Red.", "red", True),
        ("two circles", "circle", True),
        ("a 红色 disc", "red|红", True),
        ("it moves  RIGHT", "moves right", True),
        ("10 frames", "1", False),
        ("C++", "c++", True),
    ],
)
def test_a_fact_is_whole_words_or_their_plural(answer: str, fact: str, said: bool) -> None:
    assert says(answer, fact) is said


def test_a_cut_answer_fails() -> None:
    cut = answer_checks(Reply(answer="a", finish_reason="length"), max_tokens=9)
    assert [(item.name, item.status) for item in cut] == [
        ("answer", "ok"),
        ("finish reason", "failed"),
    ]
    assert "max_tokens above 9" in cut[1].remedy


def test_an_answer_cut_by_the_slots_context_blames_the_context() -> None:
    reply = Reply(answer="a", finish_reason="length", usage={"completion_tokens": 5})
    assert "serve.context_tokens" in answer_checks(reply, max_tokens=9)[1].remedy


def test_reasoning_alone_is_no_answer() -> None:
    reply = Reply(reasoning="The first frame shows", finish_reason="length")
    answer = answer_checks(reply, max_tokens=2048)[0]
    assert answer.status == "failed"
    assert answer.found == "no final answer, 21 characters of reasoning only"
    assert "above 2048" in answer.remedy


def test_a_question_that_failed_says_why_with_its_number() -> None:
    (only,) = answer_checks(Reply(error=KeyelabError("boom", "do x")), max_tokens=9, number=2)
    assert (only.name, only.status, only.found, only.remedy) == (
        "answer 2", "failed", "boom", "do x",
    )  # fmt: skip


def arrived(count: int, tokens: int | None, asked: int | None = None, **more: Any) -> Check:
    reply = Reply(usage={"prompt_tokens": tokens} if tokens else {})
    budget = replace(BUDGET, **more)
    return arrival_check(frames(PICKS[:1] * count), asked or count, budget, [Reply(), reply])


def test_a_prompt_with_every_frame_is_exact_and_merged_frames_are_counted() -> None:
    assert arrived(8, 134).status == "ok"
    merged = arrived(8, 54 + 4 * 10)
    assert (merged.status, merged.found) == ("warned", "94 tokens, 4 frames short")


def test_one_dropped_frame_of_many_is_seen() -> None:
    assert arrived(64, 54 + 640).status == "ok"
    assert arrived(64, 54 + 630).status == "warned"


def test_labels_of_frames_that_were_not_sent_are_no_shortfall() -> None:
    assert arrived(4, 40 + 27, asked=8).status == "ok"
    assert arrived(4, 27, asked=8).status == "warned"


def test_what_was_not_counted_is_unknown() -> None:
    assert arrived(8, None).status == "unknown"
    assert arrived(8, 134, measured=False).status == "unknown"
    mixed = [*frames(PICKS[:1]), *frames(PICKS[1:2], 200, 100)]
    reply = Reply(usage={"prompt_tokens": 74})
    assert arrival_check(mixed, 2, BUDGET, [reply]).status == "unknown"


def test_the_articles_frames_pass_and_would_not_if_they_were_merged() -> None:
    article = {"frame_tokens": 1197, "text_tokens": 25}
    assert arrived(10, 11995, **article).status == "ok"
    assert arrived(10, 11995 - 5 * 1197, **article).status == "warned"


def test_the_table_of_a_reply_leaves_the_unknown_unknown() -> None:
    told = {row["measure"]: row["value"] for row in rows(Reply())}
    assert told["prompt (tokens)"] is None
    assert told["first text after (s)"] is None
    assert told["of that, from the prompt cache"] is None


def test_each_question_tells_what_the_cache_spared() -> None:
    first = Reply(answer="a", ttft_s=4.0, usage={"prompt_tokens": 100}, timings={"cache_n": 0})
    second = Reply(answer="b", ttft_s=0.25, usage={"prompt_tokens": 99}, timings={"cache_n": 90})
    failed = Reply(error=KeyelabError("lost"))
    told = question_rows(["p", "q", "r"], [first, second, failed])
    assert [row["cached (tokens)"] for row in told] == [0, 90, None]
    assert [row["saved (s)"] for row in told] == [None, 3.75, None]
    assert told[2]["answer"] == "lost"
