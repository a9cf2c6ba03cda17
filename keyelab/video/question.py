"""The request of a video question: frames as image_url parts, the question last.

One user message holds every frame as a data URI and then one text part, as the article sends it.
`frame_text` puts a text part before each frame. That is more than a label: llama.cpp b9631 to
b10502 fuses two neighbouring images of equal size without text between them into one block for
Qwen-VL projectors, so that the model sees half of the frames, and a fused pair is cached under its
first frame's hash alone, so that a second video can get the first one's answer. Text between the
frames prevents both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.errors import UsageError
from keyelab.params import VideoTest
from keyelab.video.frame import Frame


def request(frames: Sequence[Frame], params: VideoTest, model: str) -> dict[str, Any]:
    """The JSON of /v1/chat/completions: the article's fields, the answer streamed.

    The article's skip_special_tokens is unknown to llama-server and silently ignored there, so it
    is not sent.
    """
    return {
        "model": model,
        "messages": messages(frames, params.prompt, params.frame_text),
        "temperature": params.temperature,
        "top_p": params.top_p,
        "max_tokens": params.max_tokens,
        "n": 1,
        "ignore_eos": False,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def messages(frames: Sequence[Frame], prompt: str, frame_text: str = "") -> list[dict[str, Any]]:
    """One user message: [label,] image, [label,] image, …, question.

    Raises UsageError for a `frame_text` that asks for more than {number} and {time_s}, or for
    {time_s} where the file has no reliable times.
    """
    parts: list[dict[str, Any]] = []
    for frame in frames:
        if frame_text:
            parts.append({"type": "text", "text": label(frame, frame_text)})
        parts.append({"type": "image_url", "image_url": {"url": frame.data_uri}})
    parts.append({"type": "text", "text": prompt})
    return [{"role": "user", "content": parts}]


def label(frame: Frame, frame_text: str) -> str:
    """`frame_text` with {number} and {time_s} of a frame filled in."""
    known: dict[str, Any] = {"number": frame.number, "time_s": frame.pick.time_s}
    if frame.pick.time_s is None:
        del known["time_s"]
    try:
        return frame_text.format(**known)
    except (LookupError, ValueError, AttributeError):
        raise UsageError(
            f"video_test.frame_text: expected {' and '.join(known)} in braces, "
            f"found {frame_text!r}",
            "example: frame_text: 'Frame {number}:'",
        ) from None
