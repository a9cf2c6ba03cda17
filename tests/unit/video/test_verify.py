"""Verdicts on frames and answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Plan
from keyelab.video.tokens import plausible, tokens_per_frame
from keyelab.video.verify import answer_checks, rows, sample_checks, vision_check

INFO = VideoInfo(Path("v"), "mp4", "h264", 96, 96, 40, 10.0, 4.0, 0.0, 4.0, False, 0)


def frames(count: int, width: int = 96, height: int = 96) -> list[Frame]:
    return [Frame(i + 1, i, 0.0, 0.0, b"", width, height) for i in range(count)]


def status(checks: list, name: str) -> str:
    return next(item.status for item in checks if item.name == name)


def test_a_covered_video_passes_and_half_of_one_fails() -> None:
    wanted = Plan(times_s=(0.5, 1.5, 2.5, 3.5))
    assert status(sample_checks(INFO, wanted, frames(4), 1.0), "coverage of the video") == "ok"
    assert status(sample_checks(INFO, wanted, frames(4), 0.5), "coverage of the video") == "failed"


def test_unknown_times_are_unknown_and_never_a_pass() -> None:
    unknown = sample_checks(INFO, Plan(indices=(1, 2)), frames(2), None)
    assert status(unknown, "coverage of the video") == "unknown"


def test_fewer_frames_than_asked_are_said() -> None:
    checks = sample_checks(INFO, Plan(times_s=(1.0, 3.0)), frames(1), 1.0)
    assert status(checks, "frames sent") == "warned"


def test_a_file_shorter_than_it_states_is_said() -> None:
    cut = replace(INFO, duration_s=1.9)
    checks = sample_checks(cut, Plan(times_s=(0.5,)), frames(1), 1.0)
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


def test_a_cut_answer_fails_and_a_missing_reason_is_unknown() -> None:
    cut = answer_checks(Reply(answer="a", finish_reason="length"), expect="", max_tokens=9)
    assert status(cut, "answer") == "ok"
    assert status(cut, "finish reason") == "failed"
    silent = answer_checks(Reply(answer="a"), expect="", max_tokens=9)
    assert status(silent, "finish reason") == "unknown"
    assert "expected words" not in {item.name for item in silent}


def test_merged_frames_show_in_the_tokens() -> None:
    eight = frames(8)
    assert vision_check(eight, tokens_per_frame(134, 54, 8)).status == "ok"
    assert vision_check(eight, tokens_per_frame(58, 14, 8)).status == "warned"
    assert vision_check(eight, tokens_per_frame(None, 14, 8)).status == "unknown"


def test_the_articles_frames_cost_what_keye_must_cost() -> None:
    fewest, most = plausible(frames(1, 1280, 720))
    assert fewest <= 1197 <= most
    assert not fewest <= 1197 / 2


def test_the_table_of_a_reply_leaves_the_unknown_unknown() -> None:
    told = {row["measure"]: row["value"] for row in rows(Reply(), None)}
    assert told["prompt (tokens)"] is None
    assert told["first text after (s)"] is None
