"""What can go wrong with a request: one exception, one sentence, one remedy each."""

from __future__ import annotations

import json
import re
from typing import Any

from keyelab.errors import KeyelabError


def refused(status: int, text: str, body: dict[str, Any]) -> KeyelabError:
    """The server answered with an error, in its status or in a 200 body."""
    try:
        error = json.loads(text).get("error", {})
    except (ValueError, AttributeError):
        error = {}
    if not isinstance(error, dict):
        error = {"message": str(error)}
    message = " ".join(str(error.get("message") or text or "no text").split())[:300]
    code = error.get("code") if isinstance(error.get("code"), int) else status
    if error.get("type") == "exceed_context_size_error" or "context size" in message:
        return context_exceeded(error, message, body)
    if code in (401, 403):
        return KeyelabError(
            f"the server wants an API key for this request ({code}: {message})",
            "start the server of 06_serve without --api-key, or stop the one that took its port",
        )
    if code == 413:
        return KeyelabError(
            f"the request is too large for the server or a proxy before it (413: {message})",
            "lower video_test.max_frames, frame_size_px or jpeg_quality",
        )
    if code == 503:
        return KeyelabError(
            f"the server is not ready (503: {message})",
            "wait until it answers: curl URL/health",
        )
    if "image" in message and ("not support" in message or "mmproj" in message):
        return KeyelabError(
            f"the server takes no images ({code}: {message})",
            "start it with its projector: keyelab run --from serve (--mmproj)",
        )
    where = f"HTTP {status}" if code == status else f"HTTP {status} with error {code}"
    return KeyelabError(
        f"expected an answer, found {where}: {message}",
        "read the server's log: the last lines name the cause",
    )


def context_exceeded(error: dict[str, Any], message: str, body: dict[str, Any]) -> KeyelabError:
    """The prompt is longer than a slot's context; the remedy is computed where the sizes are."""
    numbers = [int(word) for word in re.findall(r"\((\d+) tokens\)", message)]
    needed = error.get("n_prompt_tokens") or (numbers[0] if numbers else None)
    context = error.get("n_ctx") or (numbers[1] if len(numbers) > 1 else None)
    frames = sum(
        part.get("type") == "image_url"
        for item in body.get("messages", [])
        if isinstance(item.get("content"), list)
        for part in item["content"]
    )
    if not needed or not context:
        return KeyelabError(
            f"the prompt does not fit the server's context: {message}",
            "lower video_test.max_frames or frame_size_px, or raise serve.context_tokens",
        )
    fewer = int(frames * context * 0.9 / needed) if frames else 0
    answer = int(body.get("max_tokens") or 0)
    options = [f"serve.context_tokens of at least {needed + answer} (prompt and answer)"]
    if 0 < fewer < frames:
        options.insert(0, f"video_test.max_frames {fewer} instead of {frames}, or smaller frames")
    return KeyelabError(
        f"the prompt has {needed} tokens and the context of a slot {context}",
        "; or ".join(options) + "; -c is shared by the slots unless the KV cache is unified",
    )


def lost(
    url: str, error: Exception, timeout_s: float, pieces: int, server_log: str
) -> KeyelabError:
    """No connection, or one that ended in the middle."""
    import requests

    said = str(error)
    if isinstance(error, requests.exceptions.ConnectTimeout) or "refused" in said:
        return KeyelabError(
            f"expected the server of 06_serve at {url}, nothing listens there",
            "start it: keyelab run --from serve, or its notebook",
        )
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in said:
        return too_late(timeout_s, pieces)
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
        return KeyelabError(f"expected the address of a server, found {url!r}", "run 06_serve")
    return cut_short(pieces, server_log)


def too_late(timeout_s: float, pieces: int) -> KeyelabError:
    """The whole answer did not come in time."""
    so_far = f"after {pieces} pieces of it" if pieces else "before its first word"
    return KeyelabError(
        f"expected the answer within {timeout_s:g} s, stopped waiting {so_far}",
        "raise video_test.timeout_s, or lower max_frames or max_tokens",
    )


def cut_short(pieces: int, server_log: str) -> KeyelabError:
    """The connection ended before the answer did: as a rule the server has died."""
    so_far = f"after {pieces} pieces of it" if pieces else "before its first word"
    return KeyelabError(
        f"the connection was lost {so_far}: the server died or was stopped; "
        "sending the same again would end the same way",
        f"read why: tail -n 40 {server_log or 'the log of 06_serve'}; "
        "a GGML_ASSERT on n_ubatch wants a larger --ubatch-size or smaller frames",
    )
