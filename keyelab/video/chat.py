"""One question to llama-server over /v1/chat/completions, its answer streamed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import requests

from keyelab.errors import KeyelabError

_CONNECT_S = 10.0
_KEY_VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well


@dataclass
class Reply:
    """What came back. `ttft_s` runs from sending to the first text that is not empty.

    `usage` and `timings` are the server's own (tokens, ms, tokens per second).
    """

    answer: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    ttft_s: float | None = None
    total_s: float = 0.0


def live(text: str) -> None:
    """Print a piece of an answer at once."""
    print(text, end="", flush=True)


def ask(
    url: str,
    body: dict[str, Any],
    *,
    timeout_s: float,
    server_log: str,
    on_text: Callable[[str], None] = lambda text: None,
) -> Reply:
    """Send a question and return the whole reply; `on_text` hears each piece as it comes.

    An answer without text is a Reply too: `verify.answer_checks` judges it. Leaving this function
    closes the connection, which cancels the task in the server.

    Raises KeyelabError: not reachable, refused (context exceeded, key, size, loading), an error in
    a 200 body, connection lost, or `timeout_s` passed (looked at whenever the server says
    something, and after `timeout_s` of silence).
    """
    started = time.monotonic()
    reply = Reply()
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the environment has no business on this machine
            if key := os.environ.get(_KEY_VARIABLE):
                session.headers["Authorization"] = f"Bearer {key}"
            with session.post(
                f"{url}/v1/chat/completions",
                json=body,
                stream=True,
                timeout=(_CONNECT_S, timeout_s),
            ) as response:
                for event in _events(response, body):
                    reply.total_s = time.monotonic() - started
                    if reply.total_s > timeout_s:
                        raise requests.exceptions.Timeout
                    _take(event, reply, on_text)
    except requests.exceptions.RequestException as error:
        raise _lost(url, error, timeout_s, reply, server_log) from None
    if reply.finish_reason is None:
        raise _lost(url, None, timeout_s, reply, server_log)
    on_text("\n")
    return reply


def _events(response: requests.Response, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON of each event of the stream, {} for a ping; raises for an error of the server."""
    if not response.ok or "json" in response.headers.get("Content-Type", ""):
        raise _refused(response.status_code, response.text, body)
    for line in response.iter_lines(chunk_size=None):
        kind, _, value = line.partition(b": ")
        event = json.loads(value) if value.startswith(b"{") else {}
        if kind == b"error" or event.get("error"):
            raise _refused(response.status_code, value.decode(), body)
        yield event


def _take(event: dict[str, Any], reply: Reply, on_text: Callable[[str], None]) -> None:
    reply.usage = event.get("usage") or reply.usage
    reply.timings = event.get("timings") or reply.timings
    for choice in event.get("choices", []):
        reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
        reasoning = choice["delta"].get("reasoning_content") or ""
        answer = choice["delta"].get("content") or ""
        if reply.ttft_s is None and (reasoning or answer):
            reply.ttft_s = reply.total_s
        if reasoning and not reply.reasoning:
            on_text("[reasoning] ")
        elif answer and reply.reasoning and not reply.answer:
            on_text("\n[answer] ")
        on_text(reasoning + answer)
        reply.reasoning += reasoning
        reply.answer += answer


def _refused(status: int, text: str, body: dict[str, Any]) -> KeyelabError:
    """The server answered with an error, in its status or in a 200 body."""
    try:
        content = json.loads(text)
        error = content.get("error", content)
        message = error["message"]
    except (ValueError, LookupError, TypeError, AttributeError):
        error, message = {}, text
    needed, context = error.get("n_prompt_tokens"), error.get("n_ctx")
    if needed and context:
        return KeyelabError(
            f"the prompt has {needed} tokens and the context of a slot {context}",
            "lower video_test.max_frames or frame_size_px, or give each slot "
            f"{needed + body['max_tokens']} tokens (prompt and answer): serve.context_tokens",
        )
    hints = {
        401: f"export {_KEY_VARIABLE}=… as it was for 06_serve",
        413: "lower video_test.max_frames, frame_size_px or jpeg_quality",
        503: "wait until the server has loaded its model: keyelab status",
    }
    return KeyelabError(
        f"expected an answer, found HTTP {status}: {' '.join(str(message).split())[:300]}",
        hints.get(status, "read the server's log: the last lines name the cause"),
    )


def _lost(
    url: str, error: Exception | None, timeout_s: float, reply: Reply, server_log: str
) -> KeyelabError:
    """No connection, or one that ended before the answer did."""
    said = len(reply.answer + reply.reasoning)
    so_far = f"after {said} characters of it" if said else "before its first word"
    if "refused" in str(error) or isinstance(error, requests.exceptions.ConnectTimeout):
        return KeyelabError(
            f"expected the server of 06_serve at {url}, nothing listens there",
            "start it: keyelab run --from serve, or its notebook",
        )
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
        return KeyelabError(
            f"expected the answer within {timeout_s:g} s, stopped waiting {so_far}",
            "raise video_test.timeout_s, or lower max_frames or max_tokens",
        )
    return KeyelabError(
        f"the connection was lost {so_far}: the server died or was stopped",
        f"read why: tail -n 40 {server_log}; "
        "a GGML_ASSERT on n_ubatch wants a larger --ubatch-size or smaller frames",
    )
