"""Why a question got no answer: what the server said, how it ended, and what its log tells."""

from __future__ import annotations

import json
import re
from typing import Any

import requests

from keyelab import shell
from keyelab.apikey import VARIABLE
from keyelab.diagnose import diagnose
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.files import located

_EXCEEDED = re.compile(r"request \((\d+) tokens\) exceeds the available context size \((\d+)")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_SMALLER = "lower video_test.max_frames, frame_max_tokens or frame_size_px"


def log_size(server: ServeFacts) -> int:
    """Bytes in the server's log; 0 when it is not there."""
    log = located(server.log)
    return log.stat().st_size if log.is_file() else 0


def explained(error: KeyelabError, server: ServeFacts, above: int) -> KeyelabError:
    """The error and what the server's log says from byte `above` on, read as one story."""
    log = located(server.log)
    report = diagnose([error.message, *([(log, above)] if log.is_file() else [])])
    message, hint = error.message, error.hint
    if report.cause and not hint:
        own = report.cause.line.text in message
        message += f"; {report.cause.title if own else report.sentence}"
        hint = report.hint
    hint = hint or f"read its log: tail -n 40 {server.log}"
    return KeyelabError(message, hint, str(report) if report.known else "")


def is_loading(response: requests.Response) -> bool:
    """Whether a server says that it still loads; a 503 alone may be a proxy's."""
    return response.status_code == 503 and "Loading model" in content(response.text)[1]


def content(text: str) -> tuple[dict[str, Any], str]:
    """The error in a body and its message; a web page's title, else the body itself."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        return error, str(error["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        if text.lstrip()[:1] == "<":
            title = _TITLE.search(text)
            return {}, f"a web page: {title[1] if title else _TAG.sub(' ', text)}"
        return {}, text


def refused(status: int, text: str, body: dict[str, Any]) -> KeyelabError:
    """The server answered with an error: in its status, in a 200 body or in the stream.

    llama.cpp b10019 says that the context is exceeded in three forms: a 400 with both numbers in
    fields, older ones and proxies with them in words only, and a 500 event in the stream without
    numbers when several slots have used up the cells they share.
    """
    error, message = content(text)
    found = _EXCEEDED.search(message)
    needed, context = found.groups() if found else (None, None)
    needed, context = error.get("n_prompt_tokens", needed), error.get("n_ctx", context)
    if needed and context:
        return KeyelabError(
            f"the prompt has {needed} tokens and the context of a slot {context}",
            f"{_SMALLER}, or give each slot {int(needed) + body['max_tokens']} tokens "
            "(prompt and answer): serve.context_tokens",
        )
    message = " ".join(message.split())[:300]
    if "Context size has been exceeded" in message:
        return KeyelabError(
            f"the context that all slots share is full: {message}",
            f"ask one question at a time (serve.parallel: 1), or {_SMALLER} or max_tokens",
        )
    if "Failed to load image" in message and _sends_video(body):
        return KeyelabError(
            "expected the server to open the video, it could not: ffmpeg and ffprobe are missing "
            "on its PATH, or they cannot read this file",
            "set video_test.mode: frames, or install ffmpeg: keyelab run --from serve",
        )
    hints = {
        401: f"export {VARIABLE}=…, or serve.api_key_file, as it was for 06_serve",
        413: "the server takes 100 MiB: lower video_test.max_frames, frame_max_px or jpeg_quality",
        503: "wait until the server has loaded its model: keyelab status",
    }
    hint = hints.get(status, "") if status != 503 or "Loading model" in message else ""
    if not hint and message.startswith("a web page"):
        hint = "something between here and llama-server answers: unset http_proxy, check serve.host"
    return KeyelabError(f"expected an answer, found HTTP {status}: {message or 'no word'}", hint)


def _sends_video(body: dict[str, Any]) -> bool:
    parts = [part for message in body["messages"] for part in message["content"]]
    return any(part["type"] == "input_video" for part in parts)


def lost(
    server: ServeFacts, error: requests.RequestException | None, timeout_s: float, said: int
) -> KeyelabError:
    """No connection, or one that ended before the answer did, after `said` characters of it."""
    so_far = f"after {said} characters of it" if said else "before its first word"
    away = "refused" in str(error) or isinstance(error, requests.exceptions.ConnectTimeout)
    late = isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error)
    if late and not away:
        return KeyelabError(
            f"expected the answer within {timeout_s:g} s, stopped waiting {so_far}",
            "raise video_test.timeout_s, or lower max_frames or max_tokens",
        )
    fate = f"llama-server (pid {server.pid}) {shell.fate(server.pid, wait_s=3)}"
    if away:
        return KeyelabError(
            f"expected the server of 06_serve at {server.url}, nothing listens there: {fate}",
            "start it: keyelab run --from serve, or its notebook",
        )
    return KeyelabError(f"the connection was lost {so_far}: {fate}")
