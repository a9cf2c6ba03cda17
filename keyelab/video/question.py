"""The request of a video question: frames as image_url parts, the question last.

One user message holds every frame as a data URI and then one text part, as the article sends it.
`frame_text` puts a text part before each frame. That is more than a label: llama.cpp b9631 to
b10502 fuses two neighbouring images of equal size without text between them into one block for
Qwen-VL projectors, so that the model sees half of the frames, and a fused pair is cached under its
first frame's hash alone, so that a second video can get the first one's answer. Text between the
frames prevents both. The question stands last, so that another one reuses the frames' prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.errors import UsageError
from keyelab.params import VideoTest
from keyelab.video.frame import Frame
from keyelab.video.sample import Pick


def requests_for(frames: Sequence[Frame], params: VideoTest, model: str) -> list[dict[str, Any]]:
    """The JSON of every question about the frames; they differ in their last part only."""
    prompts = (params.prompt, *params.more_prompts)
    return [request(frames, params, model, prompt) for prompt in prompts]


def request(frames: Sequence[Frame], params: VideoTest, model: str, prompt: str) -> dict[str, Any]:
    """The JSON of /v1/chat/completions for a question about frames."""
    parts: list[dict[str, Any]] = []
    for frame in frames:
        parts += texts([frame.pick], params.frame_text, frame.number)
        parts.append(image(frame))
    return body([*parts, text(prompt)], params, model)


def body(parts: Sequence[dict[str, Any]], params: VideoTest, model: str) -> dict[str, Any]:
    """The article's fields around one user message; the answer and its progress are streamed.

    The article's skip_special_tokens is unknown to llama-server and silently ignored there, so it
    is not sent.
    """
    return {
        "model": model,
        "messages": [{"role": "user", "content": list(parts)}],
        "temperature": params.temperature,
        "top_p": params.top_p,
        "max_tokens": params.max_tokens,
        "n": 1,
        "ignore_eos": False,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }


def texts(picks: Sequence[Pick], frame_text: str, first: int = 1) -> list[dict[str, Any]]:
    """The text part before each frame, numbers from `first`; [] without a `frame_text`."""
    numbered = enumerate(picks, first)
    return [text(label(pick, number, frame_text)) for number, pick in numbered if frame_text]


def text(words: str) -> dict[str, Any]:
    """A text part."""
    return {"type": "text", "text": words}


def image(frame: Frame) -> dict[str, Any]:
    """An image part."""
    return {"type": "image_url", "image_url": {"url": frame.data_uri}}


def label(pick: Pick, number: int, frame_text: str) -> str:
    """`frame_text` filled in: {number}, {time} such as '1.5 s' or 'time unknown', {time_s}.

    Raises UsageError for anything else in braces, or for {time_s} where times are unknown.
    """
    known: dict[str, Any] = {"number": number, "time": "time unknown"}
    if pick.time_s is not None:
        known |= {"time": f"{round(pick.time_s, 2):g} s", "time_s": pick.time_s}
    try:
        return frame_text.format(**known)
    except (LookupError, ValueError, AttributeError):
        raise UsageError(
            f"video_test.frame_text: expected {', '.join(known)} in braces, found {frame_text!r}",
            "example: frame_text: 'Frame {number} ({time}):'",
        ) from None
