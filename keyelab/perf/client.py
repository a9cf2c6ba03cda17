"""Timed requests to a running llama-server: streamed, of a fixed length, measured by our clock.

guidellm 0.8.1 and llama-benchy 0.4.0 were looked at. Both need the model's Hugging Face tokenizer,
which a GGUF file does not bring, to make a prompt of a length; here the server's own tokens are
sent, so a depth is exact. guidellm also installs torch with its CUDA libraries, on machines that
have vendor builds of neither.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.facts import ServerFact

CHAT, TEXT_PATH = "/v1/chat/completions", "/completion"
TEXT = "The red circle goes to the left and the blue square to the right. "
_CONNECT_S = 10.0


@dataclass(frozen=True)
class Reply:
    """One answer: our clock (s), the server's own count and clock (ms), or why there is none.

    `ttft_s` runs to the first part of the answer, `tokens` were written in it.
    """

    ttft_s: float | None = None
    total_s: float | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_ms: float | None = None
    decode_ms: float | None = None
    error: str = ""

    @property
    def token_ms(self) -> float | None:
        """Time per token after the first, by our clock."""
        if self.ttft_s is None or self.total_s is None or (self.tokens or 0) < 2:
            return None
        assert self.tokens
        return 1000 * (self.total_s - self.ttft_s) / (self.tokens - 1)


@dataclass(frozen=True)
class Client:
    """Where requests go; `headers` hold the key, if there is one."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 600.0

    def _get(self, path: str) -> Any:
        import requests

        answer = requests.get(self.url + path, headers=self.headers, timeout=_CONNECT_S)
        answer.raise_for_status()
        return answer.json()

    def busy(self) -> int | None:
        """Slots at work; None where the server does not say (--no-slots)."""
        import requests

        try:
            return sum(bool(slot.get("is_processing")) for slot in self._get("/slots"))
        except (requests.RequestException, AttributeError, TypeError, ValueError):
            return None

    def tokens(self, count: int) -> list[int]:
        """A prompt of exactly `count` tokens (one more for its beginning is the server's)."""
        import requests

        try:
            answer = requests.post(
                f"{self.url}/tokenize", json={"content": TEXT}, headers=self.headers,
                timeout=_CONNECT_S,
            )  # fmt: skip
            answer.raise_for_status()
            own: list[int] = answer.json()["tokens"]
        except (requests.RequestException, KeyError, ValueError) as error:
            raise KeyelabError(
                f"expected the tokens of a text from {self.url}/tokenize, found "
                f"{type(error).__name__}",
                "keyelab status",
            ) from None
        return (own * (count // len(own) + 1))[:count]

    def ask(self, body: Mapping[str, Any], path: str = TEXT_PATH) -> Reply:
        """Send one request and time its answer; what goes wrong is in `error`."""
        import requests

        started = time.perf_counter()
        try:
            with requests.post(
                self.url + path, json={**body, "stream": True}, headers=self.headers, stream=True,
                timeout=(_CONNECT_S, self.timeout_s),
            ) as answer:  # fmt: skip
                if answer.status_code != 200:
                    return Reply(error=f"HTTP {answer.status_code}: {answer.text[:200]}")
                return _timed(_events(answer.iter_lines()), started)
        except (requests.RequestException, ValueError) as error:
            return Reply(error=f"no whole answer: {type(error).__name__}")


def of(server: ServerFact, timeout_s: float = 600.0) -> Client:
    """A client for a server of 06_serve."""
    from keyelab import apikey

    return Client(server.url, apikey.headers(server.api_key_file), timeout_s)


def fixed(prompt: list[int], answer_tokens: int) -> dict[str, Any]:
    """The body of a request that reads all of a prompt and writes so many tokens, no fewer."""
    return {
        "prompt": prompt,
        "n_predict": answer_tokens,
        "ignore_eos": True,
        "cache_prompt": False,
        "temperature": 0,
    }


def fixed_chat(body: Mapping[str, Any], answer_tokens: int) -> dict[str, Any]:
    """A chat request made to read its whole prompt and write so many tokens, no fewer."""
    return {**body, "max_tokens": answer_tokens, "ignore_eos": True, "cache_prompt": False}


def _events(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON of server-sent events; comments (`: ping`) are none."""
    for line in lines:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])
        elif line.startswith(b"error: {"):  # llama-server's own kind of line
            yield {"error": json.loads(line[7:])}


def _timed(events: Iterator[dict[str, Any]], started: float) -> Reply:
    ttft_s = total_s = None
    timings: dict[str, Any] = {}
    for event in events:
        now_s = time.perf_counter() - started
        if "error" in event:
            return Reply(error=str(event["error"])[:200])
        if "timings" in event:  # the end; the last tokens may have had no text
            timings, total_s = event["timings"], now_s
        delta = (event.get("choices") or [{}])[0].get("delta") or {}
        opening = "role" in delta and not delta.get("content")
        piece = delta or ("content" in event and not event.get("stop"))
        if piece and not opening:  # also an empty piece of text is a token
            ttft_s = ttft_s or now_s
    if not timings or ttft_s is None:
        return Reply(error="the answer ended without timings")
    return Reply(
        ttft_s=ttft_s,
        total_s=total_s,
        tokens=timings.get("predicted_n"),
        prompt_tokens=timings.get("prompt_n"),
        prompt_ms=timings.get("prompt_ms"),
        decode_ms=timings.get("predicted_ms"),
    )
