"""Answers are timed by what the server really streams; the events are those of b10019."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from keyelab.errors import KeyelabError
from keyelab.perf import depth, load
from keyelab.perf.client import CHAT, Client, fixed, fixed_chat

TIMINGS = {"prompt_n": 4, "prompt_ms": 2.0, "predicted_n": 3, "predicted_ms": 1.5}
COMPLETION = [
    {"content": " no", "tokens": [592], "stop": False},
    {"content": "", "tokens": [17], "stop": False},
    {"content": "", "tokens": [], "stop": True, "timings": TIMINGS},
]
CHAT_EVENTS = [
    {"choices": [{"delta": {"role": "assistant", "content": None}}]},
    {"choices": [{"delta": {"content": "I"}}]},
    {"choices": [{"finish_reason": "length", "delta": {}}], "timings": TIMINGS},
]
TOO_LONG = {"error": {"code": 400, "message": "request (5000 tokens) exceeds the context size"}}


class Handler(BaseHTTPRequestHandler):
    slots: ClassVar[list[dict[str, Any]]] = [{"is_processing": False}]
    events: ClassVar[list[dict[str, Any]]] = COMPLETION
    status = 200
    asked: ClassVar[list[dict[str, Any]]] = []

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        self._json(self.slots if self.path == "/slots" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self._json({"tokens": [7, 8, 9]})
        self.asked.append(body)
        if self.status != 200:
            return self._json(TOO_LONG, self.status)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b": ping\n\n")
        for event in CHAT_EVENTS if self.path == CHAT else self.events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, value: Any, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a server that answers as llama-server does."""
    Handler.status, Handler.events, Handler.asked = 200, COMPLETION, []
    Handler.slots = [{"is_processing": False}]
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_an_answer_is_timed_to_its_end_and_a_role_is_no_token(client: Client) -> None:
    for path in ("/completion", CHAT):
        reply = client.ask({}, path)
        assert (reply.error, reply.tokens, reply.prompt_tokens) == ("", 3, 4)
        assert reply.ttft_s is not None
        assert reply.total_s is not None
        assert 0 < reply.ttft_s <= reply.total_s
        assert reply.token_ms == pytest.approx(1000 * (reply.total_s - reply.ttft_s) / 2)


def test_prompts_have_the_length_that_was_asked_for(client: Client) -> None:
    assert client.tokens(7) == [7, 8, 9, 7, 8, 9, 7]
    client.ask(fixed(client.tokens(2), 16))
    client.ask(fixed_chat({"messages": []}, 8), CHAT)
    first, second = Handler.asked
    assert (first["prompt"], first["n_predict"], first["cache_prompt"]) == ([7, 8], 16, False)
    assert (second["max_tokens"], second["ignore_eos"], second["stream"]) == (8, True, True)


def test_what_goes_wrong_is_said(client: Client) -> None:
    Handler.status = 400
    assert "exceeds the context size" in client.ask({}).error
    Handler.status, Handler.events = 200, COMPLETION[:1]
    assert client.ask({}).error == "the answer ended without timings"
    Handler.events = [TOO_LONG]
    assert "exceeds" in client.ask({}).error
    gone = Client("http://127.0.0.1:1")
    assert gone.ask({}).error == "no whole answer: ConnectionError"
    assert gone.busy() is None
    with pytest.raises(KeyelabError, match="expected the tokens of a text"):
        gone.tokens(3)


def test_a_busy_server_is_not_measured(client: Client) -> None:
    Handler.slots = [{"is_processing": True}, {"is_processing": False}]
    assert client.busy() == 1
    for measure in (
        lambda: depth.through_http(client, [0], 3, 1),
        lambda: load.sweep(client, "text", [{}], "/completion", [1], 1),
    ):
        with pytest.raises(KeyelabError, match="found 1 requests running"):
            measure()
    assert Handler.asked == []


def test_the_first_round_is_thrown_away(client: Client) -> None:
    rows = depth.through_http(client, [8, 4], 3, 2)
    assert [len(body["prompt"]) for body in Handler.asked] == [4, 8] * 3
    assert [row["context_tokens"] for row in rows] == [4, 8] * 2
    assert rows[0]["ms_per_token"] == pytest.approx(0.75)
    assert rows[0]["prefill_tps"] == pytest.approx(2000)
    Handler.asked.clear()
    found = load.sweep(client, "text", [{"n": 1}], "/completion", [1, 3], 2)
    assert [row["level"] for row in found] == [1] * 2 + [3] * 6
    assert len(Handler.asked) == 3 + 9


def test_an_answer_of_another_length_is_an_error(client: Client) -> None:
    with pytest.raises(
        KeyelabError, match="expected 32 tokens after a prompt of 4, found 3 tokens"
    ):
        depth.through_http(client, [4], 32, 1)


def test_a_key_is_sent_and_not_shown() -> None:
    client = Client("http://127.0.0.1:1", {"Authorization": "Bearer secret"})
    assert "secret" not in repr(client)
