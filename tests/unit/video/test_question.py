"""The message: frames in order, text between them, the question last."""

from __future__ import annotations

import pytest

from keyelab.errors import UsageError
from keyelab.params import VideoTest
from keyelab.video.frame import Frame
from keyelab.video.question import label, request, requests_for, texts
from keyelab.video.sample import Pick


def frames(*times: float | None) -> list[Frame]:
    return [Frame(i, Pick(i, i, time, time), bytes([i]), 96, 96) for i, time in enumerate(times, 1)]


def content(found: list[Frame], prompt: str = "What?", text: str = "") -> list[dict]:
    body = request(found, VideoTest(frame_text=text), "m", prompt)
    (message,) = body["messages"]
    parts: list[dict] = message["content"]
    return parts


def kinds(parts: list[dict]) -> str:
    return " ".join(part["type"] for part in parts)


def test_without_frame_text_it_is_the_articles_message() -> None:
    parts = content(frames(0.5, 1.5))
    assert kinds(parts) == "image_url image_url text"
    assert parts[-1] == {"type": "text", "text": "What?"}
    assert parts[0]["image_url"]["url"] == "data:image/jpeg;base64,AQ=="


def test_the_request_is_the_articles_without_what_the_server_ignores() -> None:
    sent = request(frames(0.5), VideoTest(max_tokens=100), "m", "q")
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.1, 0.001, 100)
    assert (sent["n"], sent["ignore_eos"], sent["stream"]) == (1, False, True)
    assert sent["stream_options"] == {"include_usage": True}
    assert sent["cache_prompt"] is sent["return_progress"] is True
    assert "skip_special_tokens" not in sent


def test_frame_text_stands_before_each_frame() -> None:
    parts = content(frames(0.5, 1.5), text="Frame {number} at {time_s:.1f} s:")
    assert kinds(parts) == "text image_url text image_url text"
    assert parts[0]["text"] == "Frame 1 at 0.5 s:"
    assert parts[2]["text"] == "Frame 2 at 1.5 s:"


def test_frames_without_a_label_would_stand_next_to_each_other_and_the_default_prevents_it() -> (
    None
):
    body = request(frames(0.5, 1.5, 2.0), VideoTest(), "m", "q")
    assert "image_url image_url" not in kinds(body["messages"][0]["content"])


@pytest.mark.parametrize(
    ("time_s", "said"),
    [
        (1.5, "Frame 7 (1.5 s):"),
        (0.0, "Frame 7 (0 s):"),
        (83.123, "Frame 7 (83.12 s):"),
        (None, "Frame 7 (time unknown):"),
    ],
)
def test_the_default_label_works_with_every_time(time_s: float | None, said: str) -> None:
    assert label(Pick(1, 1, time_s, time_s), 7, VideoTest().frame_text) == said


def test_questions_about_the_same_frames_differ_in_their_last_part_only() -> None:
    params = VideoTest(prompt="one", more_prompts=["two", "three"])
    bodies = requests_for(frames(0.5, 1.5), params, "m")
    parts = [body.pop("messages")[0]["content"] for body in bodies]
    assert bodies[0] == bodies[1] == bodies[2]
    assert parts[0][:-1] == parts[1][:-1] == parts[2][:-1]
    assert [one[-1]["text"] for one in parts] == ["one", "two", "three"]


def test_chinese_labels_and_literal_braces_work() -> None:
    picks = [frame.pick for frame in frames(None)]
    assert texts(picks, "第{number}帧 {{x}}") == [{"type": "text", "text": "第1帧 {x}"}]
    assert texts(picks, "") == []


@pytest.mark.parametrize("wish", ["{name}", "{0}", "{", "{number:q}", "{number.real.x}"])
def test_what_cannot_be_filled_in_is_named(wish: str) -> None:
    with pytest.raises(UsageError, match="expected number, time, time_s in braces"):
        content(frames(0.5), text=wish)


def test_unknown_seconds_cannot_be_written_into_labels() -> None:
    with pytest.raises(UsageError, match="expected number, time in braces"):
        content(frames(None), text="[{time_s}]")
