"""The message: frames in order, text between them, the question last."""

from __future__ import annotations

import pytest

from keyelab.errors import UsageError
from keyelab.params import VideoTest
from keyelab.video.frame import Frame
from keyelab.video.question import messages, request
from keyelab.video.sample import Pick


def frames(*times: float | None) -> list[Frame]:
    return [Frame(i, Pick(i, i, time, time), bytes([i]), 96, 96) for i, time in enumerate(times, 1)]


def kinds(content: list[dict[str, str]]) -> str:
    return " ".join(part["type"] for part in content)


def test_without_frame_text_it_is_the_articles_message() -> None:
    (message,) = messages(frames(0.5, 1.5), "What?")
    assert kinds(message["content"]) == "image_url image_url text"
    assert message["content"][-1] == {"type": "text", "text": "What?"}
    assert message["content"][0]["image_url"]["url"] == "data:image/jpeg;base64,AQ=="


def test_the_request_is_the_articles_without_what_the_server_ignores() -> None:
    sent = request(frames(0.5), VideoTest(prompt="q", max_tokens=100), model="m")
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.1, 0.001, 100)
    assert (sent["n"], sent["ignore_eos"], sent["stream"]) == (1, False, True)
    assert sent["stream_options"] == {"include_usage": True}
    assert "skip_special_tokens" not in sent


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
    with pytest.raises(UsageError, match="expected number and time_s in braces"):
        messages(frames(0.5), "q", wish)


def test_unknown_times_cannot_be_written_into_labels() -> None:
    with pytest.raises(UsageError, match="expected number in braces"):
        messages(frames(None), "q", "[{time_s}]")
