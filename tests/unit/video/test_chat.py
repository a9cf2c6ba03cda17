"""The chat client against a small local server: streams, errors, and the clock."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.video.chat import ask, request_body, session_for
from keyelab.video.tokens import text_tokens
from keyelab.video.verify import answer_checks

Script = Callable[[BaseHTTPRequestHandler], None]
IMAGES = [{"type": "image_url", "image_url": {"url": "data:,"}}] * 10
BODY = request_body(
    [{"role": "user", "content": [*IMAGES, {"type": "text", "text": "q"}]}],
    model="m",
    temperature=0.1,
    top_p=0.001,
    max_tokens=100,
)


class Server:
    """Answers every POST with `script`; `asked` holds the JSON it got by path."""

    def __init__(self) -> None:
        self.script: Script = lambda handler: handler.send_error(500)
        self.asked: dict[str, Any] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                outer.asked[self.path] = json.loads(self.rfile.read(length))
                self.close_connection = True
                with contextlib.suppress(OSError):  # a client that left is no failure here
                    outer.script(self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    """A local server with a script."""
    local = Server()
    yield local
    local.http.shutdown()
    local.http.server_close()


def stream(*lines: str | float, whole: bool = True) -> Script:
    """Send lines as chunks of an event stream; a number is a pause in seconds."""

    def script(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in lines:
            if isinstance(line, float):
                time.sleep(line)
                continue
            data = (line + "\n\n").encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
        if whole:
            handler.wfile.write(b"0\r\n\r\n")

    return script


def answer(status: int, content: Any) -> Script:
    """Send one JSON document."""

    def script(handler: BaseHTTPRequestHandler) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return script


def delta(finish: str | None = None, **said: Any) -> str:
    choice = {"index": 0, "finish_reason": finish, "delta": said}
    return "data: " + json.dumps({"id": "c1", "choices": [choice]})


ROLE = delta(role="assistant", content=None)
LAST = "data: " + json.dumps(
    {"choices": [], "usage": {"prompt_tokens": 9}, "timings": {"predicted_n": 2}}
)


def test_a_streamed_answer_comes_whole_and_live(server: Server) -> None:
    server.script = stream(
        ROLE, delta(reasoning_content="Hm. "), delta(content="一个红色"), delta(content="圆形"),
        delta("stop"), LAST, "data: [DONE]",
    )  # fmt: skip
    seen: list[tuple[str, bool]] = []
    reply = ask(server.url, BODY, timeout_s=5, on_token=lambda *piece: seen.append(piece))
    assert seen == [("Hm. ", True), ("一个红色", False), ("圆形", False)]
    assert (reply.answer, reply.reasoning, reply.finish_reason) == ("一个红色圆形", "Hm. ", "stop")
    assert reply.usage == {"prompt_tokens": 9}
    assert reply.timings == {"predicted_n": 2}
    message = {"role": "assistant", "content": "一个红色圆形", "reasoning_content": "Hm. "}
    assert reply.raw["choices"][0]["message"] == message
    assert reply.raw["usage"] == {"prompt_tokens": 9}
    assert reply.raw["id"] == "c1"


def test_the_request_is_the_articles_without_what_the_server_ignores(server: Server) -> None:
    server.script = stream(delta("stop", content="x"), "data: [DONE]")
    ask(server.url + "/", BODY, timeout_s=5)
    sent = server.asked["/v1/chat/completions"]
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.1, 0.001, 100)
    assert (sent["n"], sent["ignore_eos"], sent["stream"]) == (1, False, True)
    assert sent["stream_options"] == {"include_usage": True}
    assert "skip_special_tokens" not in sent


def test_the_first_text_stops_the_clock_not_the_role_or_a_ping(server: Server) -> None:
    server.script = stream(
        ROLE, ":", delta(content=""), 0.3, delta(content="a"), 0.2, delta("stop"), "data: [DONE]"
    )
    reply = ask(server.url, BODY, timeout_s=5)
    assert reply.ttft_s is not None
    assert 0.3 <= reply.ttft_s < 0.5
    assert reply.total_s >= reply.ttft_s + 0.19
    assert reply.pieces == 1


def test_reasoning_starts_the_answer_too(server: Server) -> None:
    server.script = stream(delta(reasoning_content="a"), 0.3, delta("stop", content="b"))
    assert (ask(server.url, BODY, timeout_s=5).ttft_s or 9) < 0.25


def test_a_server_that_does_not_stream_is_understood(server: Server) -> None:
    choice = {"finish_reason": "stop", "message": {"content": "a red circle"}}
    server.script = answer(200, {"choices": [choice], "usage": {"prompt_tokens": 3}})
    reply = ask(server.url, BODY, timeout_s=5)
    assert (reply.answer, reply.finish_reason) == ("a red circle", "stop")


@pytest.mark.parametrize("content", ["", None])
def test_reasoning_alone_is_no_answer(server: Server, content: str | None) -> None:
    said = {"content": content, "reasoning_content": "The first frame shows"}
    server.script = answer(
        200,
        {
            "choices": [{"finish_reason": "length", "message": said}],
            "usage": {"completion_tokens": 2048},
        },
    )
    reply = ask(server.url, BODY, timeout_s=5)
    checks = {item.name: item for item in answer_checks(reply, expect="", max_tokens=2048)}
    assert checks["answer"].status == "failed"
    assert checks["answer"].found == "no final answer: token limit used up by reasoning (2048)"
    assert "above 2048" in checks["answer"].remedy
    assert checks["finish reason"].found == "length"
    assert reply.raw["choices"][0]["message"]["reasoning_content"] == "The first frame shows"


def refusal(server: Server, **kwargs: Any) -> KeyelabError:
    with pytest.raises(KeyelabError) as caught:
        ask(server.url, BODY, **{"timeout_s": 5, **kwargs})
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


EXCEEDED = {"type": "exceed_context_size_error", "n_prompt_tokens": 20480, "n_ctx": 4096}
SHORT = "the request exceeds the available context size."
LONG = "request (20480 tokens) exceeds the available context size (4096 tokens), try increasing it"


@pytest.mark.parametrize(
    "script",
    [
        answer(400, {"error": {**EXCEEDED, "code": 400, "message": LONG}}),
        answer(400, {"error": {"code": 400, "message": LONG}}),
        answer(200, {"error": {**EXCEEDED, "code": 400, "message": SHORT}}),
        answer(500, {"error": {**EXCEEDED, "code": 500, "message": SHORT}}),
        stream("data: " + json.dumps({"error": {**EXCEEDED, "message": SHORT}})),
        stream("error: " + json.dumps({**EXCEEDED, "message": SHORT})),
    ],
)
def test_context_exceeded_has_one_diagnosis_in_every_form(server: Server, script: Script) -> None:
    server.script = script
    error = refusal(server)
    assert error.message == "the prompt has 20480 tokens and the context of a slot 4096"
    assert "max_frames 1 instead of 10" in error.hint
    assert "at least 20580" in error.hint


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (401, {"error": {"message": "Invalid API Key", "type": "auth"}}, "API key"),
        (413, b"<html>too large</html>", "too large"),
        (503, {"error": {"message": "Loading model", "code": 503}}, "not ready"),
        (500, {"error": {"message": "image input is not supported - hint: provide the mmproj"}},
         "takes no images"),
        (500, b"Internal", "HTTP 500: Internal"),
        (200, {"error": {"code": 400, "message": "bad n"}}, "HTTP 200 with error 400: bad n"),
        (200, {"error": "plain words"}, "plain words"),
        (200, b"not json", "expected JSON"),
        (200, b"[]", "expected JSON"),
    ],
)  # fmt: skip
def test_each_refusal_is_one_sentence(server: Server, status: int, content: Any, said: str) -> None:
    server.script = answer(status, content)
    assert said in refusal(server).message


def test_a_connection_lost_in_the_middle_names_the_log(server: Server) -> None:
    server.script = stream(ROLE, delta(content="a"), delta(content=" red"), whole=False)
    error = refusal(server, server_log="records/x/logs/06_serve.log")
    assert "lost after 2 pieces" in error.message
    assert "records/x/logs/06_serve.log" in error.hint


def test_a_stream_that_ends_without_its_end_is_lost_too(server: Server) -> None:
    server.script = stream(ROLE, delta(content="a"))
    assert "lost after 1 pieces" in refusal(server).message


def test_a_server_that_dies_before_answering_is_lost(server: Server) -> None:
    server.script = lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)
    assert "lost before its first word" in refusal(server).message


def test_silence_ends_at_the_deadline(server: Server) -> None:
    server.script = stream(ROLE, 1.0, delta(content="late"))
    error = refusal(server, timeout_s=0.3)
    assert "within 0.3 s, stopped waiting before its first word" in error.message


def test_an_answer_that_never_ends_is_ended_at_the_deadline(server: Server) -> None:
    server.script = stream(*[piece for _ in range(40) for piece in (delta(content="a"), 0.05)])
    started = time.monotonic()
    assert "within 0.4 s, stopped waiting after" in refusal(server, timeout_s=0.4).message
    assert time.monotonic() - started < 1.5


def test_nothing_listening_names_the_serve_phase() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(KeyelabError, match="nothing listens there") as caught:
            ask(url, BODY, timeout_s=2)
    assert "keyelab run --from serve" in caught.value.hint


def test_no_address_at_all_is_one_sentence() -> None:
    with pytest.raises(KeyelabError, match="expected the address of a server"):
        ask("", BODY, timeout_s=2)


def test_a_proxy_of_the_environment_does_not_see_loopback(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.script = stream(delta("stop", content="x"), "data: [DONE]")
    assert ask(server.url, BODY, timeout_s=5).answer == "x"
    with session_for("http://gpu-server.example:8082") as session:
        assert session.trust_env


def test_text_tokens_are_counted_by_the_server(server: Server) -> None:
    def script(handler: BaseHTTPRequestHandler) -> None:
        replies = {"/apply-template": {"prompt": "<q>"}, "/tokenize": {"tokens": [1, 2, 3]}}
        answer(200, replies[handler.path])(handler)

    server.script = script
    assert text_tokens(server.url, BODY["messages"]) == 3
    sent = server.asked["/apply-template"]["messages"][0]["content"]
    assert sent == [{"type": "text", "text": "q"}]
    assert server.asked["/tokenize"]["parse_special"] is True


def test_text_tokens_are_unknown_where_the_server_cannot_count(server: Server) -> None:
    server.script = answer(404, {"error": {"message": "File Not Found"}})
    assert text_tokens(server.url, BODY["messages"]) is None
    assert text_tokens("http://127.0.0.1:1", BODY["messages"]) is None
