"""Verdicts on frames and answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick
from keyelab.video.verify import answer_checks, rows, sample_checks, vision_check

INFO = VideoInfo(Path("v"), "mp4", "h264", 96, 96, 40, (), 0.1, 4.0, 4.0)
PICKS = [Pick(i, i, i + 0.5, i + 0.5) for i in range(4)]


def frames(picks: list[Pick], width: int = 96, height: int = 96) -> list[Frame]:
    return [Frame(i, pick, b"", width, height) for i, pick in enumerate(picks, 1)]


def status(checks: list, name: str) -> str:
    return next(item.status for item in checks if item.name == name)


def test_a_covered_video_passes() -> None:
    checks = sample_checks(INFO, PICKS, frames(PICKS))
    assert {item.status for item in checks} == {"ok"}


def test_half_a_video_fails_and_says_how_many_frames_were_sent() -> None:
    checks = sample_checks(INFO, PICKS, frames(PICKS[:2]))
    assert status(checks, "coverage of the video") == "failed"
    assert status(checks, "frames sent") == "warned"


def test_unknown_times_are_unknown_and_never_a_pass() -> None:
    picks = [Pick(None, 1), Pick(None, 2)]
    unknown = sample_checks(replace(INFO, duration_s=None), picks, frames(picks))
    assert status(unknown, "coverage of the video") == "unknown"


def test_a_file_shorter_than_it_states_is_said() -> None:
    checks = sample_checks(replace(INFO, duration_s=1.9), PICKS[:1], frames(PICKS[:1]))
    assert status(checks, "video is whole") == "warned"


@pytest.mark.parametrize(
    ("said", "expect", "verdict"),
    [
        ("A Red Circle moves right.", "a red circle moves right", "ok"),
        ("a red circle moves left", "a red circle moves right", "failed"),
        ("画面中有一个红色圆形", "红色圆形", "ok"),
        ("", "红色", "failed"),
    ],
)
def test_expected_words_are_looked_for_in_any_case(said: str, expect: str, verdict: str) -> None:
    checks = answer_checks(Reply(answer=said, finish_reason="stop"), expect=expect, max_tokens=9)
    assert status(checks, "expected words") == verdict


def test_a_cut_answer_fails() -> None:
    cut = answer_checks(Reply(answer="a", finish_reason="length"), expect="", max_tokens=9)
    assert [(item.name, item.status) for item in cut] == [
        ("answer", "ok"),
        ("finish reason", "failed"),
    ]


def test_reasoning_alone_is_no_answer() -> None:
    reply = Reply(reasoning="The first frame shows", finish_reason="length")
    answer = answer_checks(reply, expect="", max_tokens=2048)[0]
    assert answer.status == "failed"
    assert answer.found == "no final answer, 21 characters of reasoning only"
    assert "above 2048" in answer.remedy


def test_merged_frames_show_in_the_prompts_length() -> None:
    eight = frames(PICKS * 2)
    assert vision_check(eight, 134).status == "ok"
    assert vision_check(eight, 58).status == "warned"
    assert vision_check(eight, None).status == "unknown"


def test_the_articles_frames_pass_and_would_not_if_they_were_merged() -> None:
    ten = frames(PICKS[:1] * 10, 1280, 720)
    assert vision_check(ten, 11995).status == "ok"
    assert vision_check(ten, 11995 - 5 * 1197).status == "warned"


def test_the_table_of_a_reply_leaves_the_unknown_unknown() -> None:
    told = {row["measure"]: row["value"] for row in rows(Reply())}
    assert told["prompt (tokens)"] is None
    assert told["first text after (s)"] is None
