"""One question to llama-server over /v1/chat/completions, its answer streamed.

The fields are the article's: temperature, top_p, max_tokens, n 1, ignore_eos false. Its
skip_special_tokens is unknown to llama-server and silently ignored there, so it is not sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests

from keyelab.errors import KeyelabError
from keyelab.video import faults

PATH = "/v1/chat/completions"
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
_CONNECT_S = 10.0


@dataclass
class Reply:
    """What came back. `ttft_s` runs from sending to the first text that is not empty.

    `usage` and `timings` are the server's own (tokens, ms, tokens per second); `raw` is the whole
    response in the form of an answer that was not streamed.
    """

    answer: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    ttft_s: float | None = None
    total_s: float = 0.0
    pieces: int = 0
    raw: dict[str, Any] = field(default_factory=dict)


def session_for(url: str) -> requests.Session:
    """A session that never sends a loopback address to a proxy of the environment."""
    session = requests.Session()
    session.trust_env = urlsplit(url).hostname not in _LOOPBACK
    return session


def request_body(
    messages: list[dict[str, Any]],
    *,
    model: str,
    temperature: float,
    top_p: float,
    max_tokens: int,
) -> dict[str, Any]:
    """The JSON of the question."""
    return {
        "model": model,
        "messages": messages,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "n": 1,
        "ignore_eos": False,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def ask(
    url: str,
    body: dict[str, Any],
    *,
    timeout_s: float,
    on_token: Callable[[str, bool], None] | None = None,
    server_log: str = "",
) -> Reply:
    """Send a question and return the whole reply; `on_token(text, is_reasoning)` sees it come.

    An answer without text is a Reply too: `verify.answer_checks` judges it. Leaving this function
    closes the connection, which cancels the task in the server.

    Raises KeyelabError: not reachable, refused (context exceeded, key, size, loading), an error in
    a 200 body, connection lost, or `timeout_s` passed (looked at whenever the server says
    something, and after `timeout_s` of silence).
    """
    started = time.monotonic()
    reply = Reply()
    try:
        with (
            session_for(url) as session,
            session.post(
                url.rstrip("/") + PATH, json=body, stream=True, timeout=(_CONNECT_S, timeout_s)
            ) as response,
        ):
            if not response.ok:
                raise faults.refused(response.status_code, response.text, body)
            whole = False
            for event in _events(response):
                now = time.monotonic() - started
                if now > timeout_s:
                    raise faults.too_late(timeout_s, reply.pieces)
                if event is None:
                    whole = True
                elif event:
                    _take(event, reply, now, on_token, body)
    except requests.exceptions.RequestException as error:
        raise faults.lost(url, error, timeout_s, reply.pieces, server_log) from None
    reply.total_s = time.monotonic() - started
    if not whole and reply.finish_reason is None:
        raise faults.cut_short(reply.pieces, server_log)
    reply.raw["choices"] = [_choice(reply)]
    return reply


def _events(response: requests.Response) -> Iterator[dict[str, Any] | None]:
    """Events of the stream: a dict each, empty for a comment ping, None at its proper end."""
    if "json" in response.headers.get("Content-Type", ""):
        yield _read(response.content)
        yield None
        return
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    for line in response.iter_lines(chunk_size=None if chunked else 1):
        kind, _, value = line.partition(b":")
        value = value.strip()
        if kind == b"data" and value == b"[DONE]":
            yield None
        elif kind == b"data" and value:
            yield _read(value)
        elif kind == b"error":
            yield {"error": _read(value)}
        else:
            yield {}


def _read(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        found = text[:120].decode(errors="replace")
        raise KeyelabError(
            f"expected JSON from {PATH}, found {found!r}",
            "see what answers there: curl -i URL/health",
        )
    return content


def _take(
    event: dict[str, Any],
    reply: Reply,
    now_s: float,
    on_token: Callable[[str, bool], None] | None,
    body: dict[str, Any],
) -> None:
    if event.get("error"):
        raise faults.refused(200, json.dumps(event), body)
    reply.usage = event.get("usage") or reply.usage
    reply.timings = event.get("timings") or reply.timings
    for key in ("id", "model", "created", "system_fingerprint", "usage", "timings"):
        if event.get(key) is not None:
            reply.raw[key] = event[key]
    for choice in event.get("choices") or []:
        reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
        said = choice.get("delta") or choice.get("message") or {}
        for key in ("reasoning_content", "content"):
            text = said.get(key)
            if not text:
                continue
            reply.pieces += 1
            if reply.ttft_s is None:
                reply.ttft_s = now_s
            if key == "content":
                reply.answer += text
            else:
                reply.reasoning += text
            if on_token:
                on_token(text, key != "content")


def _choice(reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.answer}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    return {"index": 0, "finish_reason": reply.finish_reason, "message": message}
