"""Questions whose answers are known: a sum, and the colour of two pictures drawn here.

They are asked greedily, without a prompt cache and, where the template can, without thinking.
Two pictures, since a server that is blind may well say 'red' to everything.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab import apikey
from keyelab.checks import Check, check
from keyelab.serving.command import ServerPlan
from keyelab.serving.state import ServerState

# whole words: "centered" names no colour
_COLOURS = {
    "red": ((220, 40, 40), r"(?<![a-z])red(?:dish)?(?![a-z])|红"),
    "blue": ((45, 70, 225), r"(?<![a-z])blu(?:e|ish)(?![a-z])|蓝"),
}
_QUESTION = "What colour is the shape?"
_SUM = "What is 37*89-156? Answer with the number only."
_SIDE_PX, _RADIUS_PX, _GROUND = 96, 14, 40  # what the packaged demo model was trained on
_MOST_TOKENS, _TIMEOUT_S = 512, 300.0
_THOUGHT = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)


@dataclass(frozen=True)
class Reply:
    """An answer, without its reasoning, and who signed it; `error` says why there is none."""

    text: str = ""
    build: str = ""
    took_s: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Asked:
    """A question that was put to the server on `port`, and whether the reply is right."""

    name: str
    question: str
    port: int
    reply: Reply
    expected: str
    right: bool


def ask(plan: ServerPlan, server: ServerState, *, calculates: bool) -> list[Asked]:
    """Ask one server; a model that does not calculate is spared the sum."""
    asked = []
    for name, question, picture, expected in _questions(calculates):
        content = [picture, {"type": "text", "text": question}] if picture else question
        reply = _post(plan, server, content)
        right = not reply.error and is_right(reply.text, expected)
        asked.append(Asked(name, question, server.port, reply, expected, right))
    return asked


def rows(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Question, answer, seconds."""
    return [
        {"port": one.port, "shown": one.name, "question": one.question}
        | {"answer": one.reply.text or one.reply.error, "s": one.reply.took_s}
        for one in asked
    ]


def checks(asked: Sequence[Asked], build: str) -> list[Check]:
    """Right answers; unknown where an answer is signed by another build than `build`.

    A proxy or a replay would sign so: that it is right says nothing of this server.
    """
    return [
        check(
            f"answer: {one.name}",
            None if one.reply.build not in ("", build) else one.right,
            expected=one.expected,
            found=(one.reply.error or repr(one.reply.text[:80]))
            + (f", signed by {one.reply.build}" if one.reply.build not in ("", build) else ""),
            remedy="weights, projector or a kernel are wrong: see the kernel gate and the greedy "
            "answers of 05_build, then keyelab run --from source_patch with another recipe",
        )
        for one in asked
    ]


def _questions(calculates: bool) -> Iterator[tuple[str, str, dict[str, Any] | None, str]]:
    """Name, question, picture part, and what is expected."""
    for colour, (rgb, _) in _COLOURS.items():
        yield f"{colour} picture", _QUESTION, _picture(rgb), colour
    if calculates:
        yield "sum", _SUM, None, "3137"


def is_right(text: str, expected: str) -> bool:
    """Whether an answer names the expected colour and no other, or the expected number."""
    return named(text) == {expected} if expected in _COLOURS else expected in numbers(text)


def named(text: str) -> set[str]:
    """The colours of the pictures that a text names, in English or Chinese."""
    return {c for c, (_, words) in _COLOURS.items() if re.search(words, text.lower())}


def numbers(text: str) -> list[str]:
    """The whole numbers in a text, separators of thousands taken out."""
    return re.findall(r"\d+", re.sub(r"(?<=\d)[,\s](?=\d{3})", "", text))


def _picture(rgb: tuple[int, int, int]) -> dict[str, Any]:
    """A disc on a dark ground as the part of a message (PNG: the same bytes every time)."""
    import cv2
    import numpy

    canvas = numpy.full((_SIDE_PX, _SIDE_PX, 3), _GROUND, numpy.uint8)
    middle = (_SIDE_PX // 2, _SIDE_PX // 2)
    cv2.circle(canvas, middle, _RADIUS_PX, rgb[::-1], thickness=-1, lineType=cv2.LINE_AA)
    data = base64.b64encode(cv2.imencode(".png", canvas)[1].tobytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def _post(plan: ServerPlan, server: ServerState, content: object) -> Reply:
    import requests

    body = {
        "model": plan.params.alias,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": _MOST_TOKENS,
        "cache_prompt": False,  # b10019 may answer a second picture with the first one's cache
        "chat_template_kwargs": {"enable_thinking": False},
    }
    started = time.monotonic()
    with apikey.session(server.api_key_file) as session:
        try:
            url = f"{server.url}/v1/chat/completions"
            response = session.post(url, json=body, timeout=_TIMEOUT_S)
            said = response.json()
            message = said["choices"][0]["message"] if response.status_code == 200 else {}
        except (requests.RequestException, LookupError, TypeError, ValueError) as error:
            return Reply(error=f"no answer: {type(error).__name__}")
    took_s = time.monotonic() - started
    if response.status_code != 200:
        return Reply(took_s=took_s, error=f"HTTP {response.status_code}: {response.text[:200]}")
    text = _THOUGHT.sub("", message.get("content") or "").strip()
    return Reply(text, str(said.get("system_fingerprint") or ""), took_s)
