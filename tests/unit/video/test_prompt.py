"""The message: frames in order, text between them, the question last."""

from __future__ import annotations

import pytest

from keyelab.errors import UsageError
from keyelab.video.frame import Frame
from keyelab.video.prompt import messages, without_pictures


def frames(*times: float | None) -> list[Frame]:
    return [Frame(i, i, time, time, bytes([i]), 96, 96) for i, time in enumerate(times, 1)]


def kinds(content: list[dict[str, str]]) -> str:
    return " ".join(part["type"] for part in content)


def test_without_frame_text_it_is_the_articles_message() -> None:
    (message,) = messages(frames(0.5, 1.5), "What?")
    assert kinds(message["content"]) == "image_url image_url text"
    assert message["content"][-1] == {"type": "text", "text": "What?"}
    assert message["content"][0]["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_frame_text_stands_before_each_frame() -> None:
    (message,) = messages(frames(0.5, 1.5), "What?", "Frame {number} at {time_s:.1f} s:")
    assert kinds(message["content"]) == "text image_url text image_url text"
    assert message["content"][0]["text"] == "Frame 1 at 0.5 s:"
    assert message["content"][2]["text"] == "Frame 2 at 1.5 s:"


def test_chinese_labels_and_literal_braces_work() -> None:
    (message,) = messages(frames(None), "q", "第{number}帧 {{x}}")
    assert message["content"][0]["text"] == "第1帧 {x}"


@pytest.mark.parametrize("wish", ["{name}", "{0}", "{", "{number:q}", "{number.real.x}"])
def test_what_cannot_be_filled_in_is_named(wish: str) -> None:
    with pytest.raises(UsageError, match=r"frame_text: expected"):
        messages(frames(0.5), "q", wish)


def test_unknown_times_cannot_be_written_into_labels() -> None:
    with pytest.raises(UsageError, match="times of this video are unknown"):
        messages(frames(None), "q", "[{time_s}]")


def test_the_text_alone_can_be_counted() -> None:
    (message,) = without_pictures(messages(frames(0.5, 1.0), "What?", "Frame {number}:"))
    assert kinds(message["content"]) == "text text text"
