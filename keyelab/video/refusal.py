"""Why a question got no answer: what the server said, how it ended, and what its log tells."""

from __future__ import annotations

import json
from typing import Any

import requests

from keyelab import shell
from keyelab.diagnose import diagnose
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.files import located

KEY_VARIABLE = "LLAMA_API_KEY"  # llama-server reads its key from here as well


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
    """The error in a body and its message; without one in JSON the message is the body."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        return error, str(error["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}, text


def refused(status: int, text: str, body: dict[str, Any]) -> KeyelabError:
    """The server answered with an error, in its status or in a 200 body."""
    error, message = content(text)
    needed, context = error.get("n_prompt_tokens"), error.get("n_ctx")
    if needed and context:
        return KeyelabError(
            f"the prompt has {needed} tokens and the context of a slot {context}",
            "lower video_test.max_frames or frame_size_px, or give each slot "
            f"{needed + body['max_tokens']} tokens (prompt and answer): serve.context_tokens",
        )
    hints = {
        401: f"export {KEY_VARIABLE}=… as it was for 06_serve",
        413: "lower video_test.max_frames, frame_size_px or jpeg_quality",
        503: "wait until the server has loaded its model: keyelab status",
    }
    hint = hints.get(status, "") if status != 503 or "Loading model" in message else ""
    return KeyelabError(
        f"expected an answer, found HTTP {status}: {' '.join(message.split())[:300]}", hint
    )


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
