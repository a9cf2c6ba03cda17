"""What the frames cost in tokens, and whether that can be right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import requests

from keyelab.video.chat import session_for
from keyelab.video.frame import Frame
from keyelab.video.prompt import without_pictures

_TIMEOUT_S = 10.0
_MARKERS = 4  # begin and end of an image, and what some projectors add


def text_tokens(url: str, messages: Sequence[dict[str, Any]]) -> int | None:
    """Tokens of the template and the text parts alone; None where the server cannot say.

    /apply-template and /tokenize are llama-server's own.
    """
    base = url.rstrip("/")
    try:
        with session_for(url) as session:
            flat = session.post(
                f"{base}/apply-template",
                json={"messages": without_pictures(messages)},
                timeout=_TIMEOUT_S,
            ).json()["prompt"]
            counted = session.post(
                f"{base}/tokenize",
                json={"content": flat, "add_special": True, "parse_special": True},
                timeout=_TIMEOUT_S,
            ).json()["tokens"]
    except (requests.exceptions.RequestException, ValueError, KeyError, TypeError):
        return None
    return len(counted)


def tokens_per_frame(prompt_tokens: int | None, text: int | None, frames: int) -> float | None:
    """Vision tokens of one frame (its begin and end marker counted); None unknown."""
    if prompt_tokens is None or text is None or not frames:
        return None
    return (prompt_tokens - text) / frames


def plausible(frames: Sequence[Frame]) -> tuple[int, int]:
    """Fewest and most tokens that a native-resolution projector makes of one frame.

    One token is a square of patch × merge pixels: 28 (Keye, Qwen2.5-VL) or 32 (Qwen3-VL). Frames
    merged in pairs, as llama.cpp b9631 to b10502 does without text between them, fall below.
    """
    width, height = frames[0].width, frames[0].height
    fewest = max(1, width // 32) * max(1, height // 32)
    return max(8, fewest), max(8, math.ceil(width / 28) * math.ceil(height / 28)) + _MARKERS
