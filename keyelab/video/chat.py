"""One question to llama-server over /v1/chat/completions, its answer streamed."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import requests

from keyelab import apikey
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.video import refusal

_CONNECT_S = 10.0
_LOADING_S = 120.0
_QUIET_S = 2.0  # a prompt that is read sooner needs no progress

Text = Callable[[str], None]
Progress = Callable[[float | None, str], None]


def _unheard(text: str) -> None:
    pass


@dataclass
class Reply:
    """What came back. `ttft_s` runs from sending to the first text that is not empty.

    `usage` and `timings` are the server's own (tokens, ms, tokens per second); `error` is why
    there is no whole answer.
    """

    answer: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    ttft_s: float | None = None
    total_s: float = 0.0
    error: KeyelabError | None = None

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt, as the server counted them."""
        return self.usage.get("prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """Of these, taken over from the prompt before: timings.cache_n, else usage's account."""
        details = self.usage.get("prompt_tokens_details") or {}
        cached: int | None = self.timings.get("cache_n", details.get("cached_tokens"))
        return cached


Put = Callable[[dict[str, Any]], Reply]


def live(text: str) -> None:
    """Print a piece of an answer at once."""
    print(text, end="", flush=True)


def ask(
    server: ServeFacts,
    body: dict[str, Any],
    *,
    timeout_s: float,
    kept: Path,
    on_text: Text = _unheard,
    on_progress: Progress = lambda share, text: None,
) -> Reply:
    """Send a question and return the whole reply; `on_text` hears each piece as it comes.

    `on_progress` hears how much of the prompt has been read.

    What the server sends is kept as it came, one JSON a line. An answer without text is a Reply
    too: `verify.answer_checks` judges it. Leaving this function closes the connection, which
    cancels the task in the server. A question is asked again only while the server says that it
    still loads.

    Raises KeyelabError, with what the server's log says of it: not reachable, refused (context
    exceeded, key, size, loading), an error in a 200 body, connection lost, or `timeout_s` passed
    (looked at whenever the server says something, and after `timeout_s` of silence).
    """
    above = refusal.log_size(server)
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        with kept.open("w", encoding="utf-8") as sink:
            return _whole(server, body, timeout_s, sink, on_text, on_progress)
    except KeyelabError as error:
        raise refusal.explained(error, server, above) from None


def asking(server: ServeFacts, *, kept: Path, **given: Any) -> Put:
    """What asks this server, as `ask` does; the second reply is kept in <name>-2 and so on."""
    numbers = itertools.count(1)

    def put(body: dict[str, Any]) -> Reply:
        number = next(numbers)
        own = kept if number == 1 else kept.with_stem(f"{kept.stem}-{number}")
        return ask(server, body, kept=own, **given)

    return put


def ask_each(
    put: Put, bodies: Sequence[dict[str, Any]], *, on_text: Text = _unheard
) -> list[Reply]:
    """Ask one question after the other; raises when none was answered.

    A reply to a question that failed holds its error, and the others are kept.
    """
    replies = []
    for number, body in enumerate(bodies, 1):
        if len(bodies) > 1:
            on_text(f"[{number}] {body['messages'][0]['content'][-1]['text']}\n")
        try:
            replies.append(put(body))
        except KeyelabError as error:
            on_text(f"[no answer] {error.message}\n")
            replies.append(Reply(error=error))
    if replies[0].error and all(reply.error for reply in replies):
        raise replies[0].error
    return replies


def _whole(
    server: ServeFacts,
    body: dict[str, Any],
    timeout_s: float,
    sink: IO[str],
    on_text: Text,
    on_progress: Progress,
) -> Reply:
    started = time.monotonic()
    reply = Reply()
    try:
        with (
            apikey.session(server.api_key_file) as session,
            _posted(session, server.url, body, timeout_s) as response,
        ):
            for event in _events(response, body):
                sink.write(json.dumps(event, ensure_ascii=False) + "\n" if event else "")
                reply.total_s = time.monotonic() - started
                if reply.total_s > timeout_s:
                    raise requests.exceptions.Timeout
                _take(event, reply, on_text)
                if (read := event.get("prompt_progress")) and reply.total_s > _QUIET_S:
                    on_progress(*_read(read))
    except requests.exceptions.RequestException as error:
        said = len(reply.answer + reply.reasoning)
        raise refusal.lost(server, error, timeout_s, said) from None
    if reply.finish_reason is None:
        raise refusal.lost(server, None, timeout_s, len(reply.answer + reply.reasoning))
    on_text("\n")
    return reply


def _posted(
    session: requests.Session, url: str, body: dict[str, Any], timeout_s: float
) -> requests.Response:
    """The answer to the question, its body not read yet; asked again while the model loads."""
    deadline = time.monotonic() + min(timeout_s, _LOADING_S)
    while True:
        response = session.post(
            f"{url}/v1/chat/completions", json=body, stream=True, timeout=(_CONNECT_S, timeout_s)
        )
        if time.monotonic() > deadline or not refusal.is_loading(response):
            return response
        response.close()
        time.sleep(0.5)


def _events(response: requests.Response, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON of each event of the stream, {} for a ping; raises for an error of the server."""
    if response.ok and "json" in response.headers.get("Content-Type", ""):
        yield _unstreamed(response, body)
        return
    if not response.ok:
        raise refusal.refused(response.status_code, response.text, body)
    for line in response.iter_lines(chunk_size=None):
        kind, _, value = line.partition(b": ")
        try:
            event = json.loads(value) if value.startswith(b"{") else {}
        except ValueError:  # cut in the middle: who sent it has ended
            raise requests.exceptions.ChunkedEncodingError(value) from None
        if kind == b"error" or event.get("error"):
            raise refusal.refused(response.status_code, value.decode(), body)
        yield event


def _unstreamed(response: requests.Response, body: dict[str, Any]) -> dict[str, Any]:
    """A whole answer in the form of one event; many a proxy does not stream."""
    try:
        content = response.json()
        whole = [{**choice, "delta": choice["message"]} for choice in content["choices"]]
    except (ValueError, LookupError, TypeError):
        raise refusal.refused(response.status_code, response.text, body) from None
    return {**content, "choices": whole}


def _read(progress: dict[str, int]) -> tuple[float, str]:
    """How far the prompt has been read, of llama-server's prompt_progress."""
    done, total, cached = (progress[name] for name in ("processed", "total", "cache"))
    return done / max(total, 1), f"prompt: {done:,} of {total:,} tokens, {cached:,} cached"


def _take(event: dict[str, Any], reply: Reply, on_text: Text) -> None:
    reply.usage = event.get("usage") or reply.usage
    reply.timings = event.get("timings") or reply.timings
    for choice in event.get("choices", []):
        reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
        delta = choice.get("delta") or {}
        reasoning = delta.get("reasoning_content") or ""
        answer = delta.get("content") or ""
        if reply.ttft_s is None and (reasoning or answer):
            reply.ttft_s = reply.total_s
        if reasoning and not reply.reasoning:
            on_text("[reasoning] ")
        elif answer and reply.reasoning and not reply.answer:
            on_text("\n[answer] ")
        on_text(reasoning + answer)
        reply.reasoning += reasoning
        reply.answer += answer
