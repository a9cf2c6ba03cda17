"""The messages of a video question: frames as image_url parts, the question last.

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
from keyelab.video.frame import Frame


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
    known: dict[str, Any] = {"number": frame.number}
    if frame.time_s is not None:
        known["time_s"] = frame.time_s
    try:
        return frame_text.format_map(known)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        found = f"{frame_text!r} ({type(error).__name__}: {error})"
        may = " and ".join(f"{{{name}}}" for name in known)
        why = "" if "time_s" in known else "; the times of this video are unknown"
        raise UsageError(
            f"video_test.frame_text: expected {may} to be filled in, found {found}{why}",
            "example: frame_text: 'Frame {number}:'",
        ) from None


def without_pictures(content: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages with their text parts only (to count what the text costs)."""
    return [
        {**message, "content": [part for part in message["content"] if part["type"] == "text"]}
        for message in content
    ]
