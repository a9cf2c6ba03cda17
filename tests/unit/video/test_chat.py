"""The chat client against a small local server: streams, errors, and the clock."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.video import chat
from keyelab.video.chat import Reply, ask

Script = Callable[[BaseHTTPRequestHandler], None]
BODY = {"messages": [], "max_tokens": 100}


class Server:
    """Answers every POST with `script`; `headers` holds those of the last one."""

    def __init__(self) -> None:
        self.script: Script = lambda handler: handler.send_error(500)
        self.headers: Any = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer.headers = self.headers
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server's log and the kept replies of a test are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts(url: str, pid: int = 1) -> ServeFacts:
    return ServeFacts(
        url=url, pid=pid, state_file="", log=str(Path("06_serve.log").absolute()), alias="a",
        build_info="", model_path="", context_tokens=None, slots=None, ready_s=0.0, command="",
    )  # fmt: skip


def put(server: Server, pid: int = 1, **given: Any) -> Reply:
    return ask(
        facts(server.url, pid), BODY, **{"timeout_s": 5, "kept": Path("reply.jsonl"), **given}
    )


def test_a_streamed_answer_comes_whole_and_live(server: Server) -> None:
    server.script = stream(
        ROLE, delta(reasoning_content="Hm. "), delta(content="一个红色"), delta(content="圆形"),
        delta("stop"), LAST, "data: [DONE]",
    )  # fmt: skip
    seen: list[str] = []
    reply = put(server, on_text=seen.append)
    assert "".join(seen) == "[reasoning] Hm. \n[answer] 一个红色圆形\n"
    assert (reply.answer, reply.reasoning, reply.finish_reason) == ("一个红色圆形", "Hm. ", "stop")
    assert reply.usage == {"prompt_tokens": 9}
    assert reply.timings == {"predicted_n": 2}
    kept = Path("reply.jsonl").read_text().splitlines()
    assert json.loads(kept[1])["choices"][0]["delta"] == {"reasoning_content": "Hm. "}
    assert len(kept) == 6


def test_the_first_text_stops_the_clock_not_the_role_or_a_ping(server: Server) -> None:
    server.script = stream(
        ROLE, ":", delta(content=""), 0.3, delta(content="a"), 0.2, delta("stop"), "data: [DONE]"
    )
    reply = put(server)
    assert reply.ttft_s is not None
    assert 0.3 <= reply.ttft_s < 0.5
    assert reply.total_s >= reply.ttft_s + 0.19


def test_reasoning_starts_the_answer_too(server: Server) -> None:
    server.script = stream(delta(reasoning_content="a"), 0.3, delta("stop", content="b"))
    assert (put(server).ttft_s or 9) < 0.25


def refusal(server: Server, **kwargs: Any) -> KeyelabError:
    with pytest.raises(KeyelabError) as caught:
        put(server, **kwargs)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


EXCEEDED = {
    "message": "the request exceeds the available context size",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 20480,
    "n_ctx": 4096,
}


@pytest.mark.parametrize(
    "script",
    [
        answer(400, {"error": EXCEEDED}),
        answer(200, {"error": EXCEEDED}),
        stream("data: " + json.dumps({"error": EXCEEDED})),
        stream("error: " + json.dumps(EXCEEDED)),
    ],
)
def test_context_exceeded_has_one_diagnosis_in_every_form(server: Server, script: Script) -> None:
    server.script = script
    error = refusal(server)
    assert error.message == "the prompt has 20480 tokens and the context of a slot 4096"
    assert "max_frames" in error.hint
    assert "20580 tokens" in error.hint


@pytest.mark.parametrize(
    ("status", "content", "said", "remedy"),
    [
        (401, {"error": {"message": "Invalid API Key"}}, "401: Invalid API Key", "LLAMA_API_KEY"),
        (413, b"<html>too large</html>", "too large", "jpeg_quality"),
        (503, b"proxy: host not allowed", "; A proxy answers", "proxy"),
        (500, {"error": {"message": "image input is not supported"}}, "image input", "projector"),
        (500, b"Internal", "HTTP 500: Internal", "log"),
        (200, {"error": "plain words"}, "plain words", "log"),
        (200, b"not json", "HTTP 200: not json", "log"),
    ],
)
def test_each_refusal_is_one_sentence(
    server: Server, status: int, content: Any, said: str, remedy: str
) -> None:
    server.script = answer(status, content)
    error = refusal(server)
    assert said in error.message
    assert remedy in error.hint


def test_a_connection_lost_in_the_middle_names_the_log(server: Server) -> None:
    server.script = stream(ROLE, delta(content="a"), delta(content=" red"), whole=False)
    error = refusal(server)
    assert "lost after 5 characters" in error.message
    assert "06_serve.log" in error.hint
    assert "(pid 1) still runs" in error.message


def test_a_stream_that_ends_without_its_end_is_lost_too(server: Server) -> None:
    server.script = stream(ROLE, delta(content="a"))
    assert "lost after 1 characters" in refusal(server).message


UBATCH = (
    "/src/llama-context.cpp:1749: GGML_ASSERT((cparams.causal_attn || cparams.n_ubatch >= "
    'n_tokens_all) && "non-causal attention requires n_ubatch >= n_tokens") failed\n'
    "[New LWP 69193]\n"
)
KILLED = "clang++: error: unable to execute command: Killed\n"


def test_a_server_that_an_assertion_ends_is_joined_with_its_log_and_asked_once(
    server: Server, folder: Path
) -> None:
    log = folder / "06_serve.log"
    log.write_text(KILLED)
    child = subprocess.Popen(["sh", "-c", "sleep 0.3; kill -ABRT $$"])
    asked: list[int] = []

    def crash(handler: BaseHTTPRequestHandler) -> None:
        asked.append(1)
        log.write_text(KILLED + UBATCH)
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.script = crash
    error = refusal(server, pid=child.pid)
    child.wait()
    assert len(asked) == 1
    assert f"llama-server (pid {child.pid}) ended with signal SIGABRT" in error.message
    assert "06_serve.log:2: " in error.message
    assert "--ubatch-size" in error.hint + error.diagnosis
    assert "LWP" not in error.message
    assert "unable to execute" not in error.diagnosis, "the log before the question is not read"


def test_an_error_whose_cause_is_in_the_servers_log_names_it(server: Server, folder: Path) -> None:
    def fail(handler: BaseHTTPRequestHandler) -> None:
        (folder / "06_serve.log").write_text("failed to find a memory slot for batch of 1024\n")
        answer(500, {"error": {"message": "failed to process image"}})(handler)

    server.script = fail
    error = refusal(server)
    assert "failed to process image; " in error.message
    assert "context" in error.hint


@pytest.mark.parametrize("loaded", [True, False])
def test_a_server_that_still_loads_is_asked_again_for_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    monkeypatch.setattr(chat, "_LOADING_S", 5.0 if loaded else 0.7)
    loading = answer(503, {"error": {"message": "Loading model", "type": "unavailable_error"}})
    left = [loading, loading] if loaded else [loading] * 99
    good = stream(delta("stop", content="x"))
    server.script = lambda handler: (left.pop() if left else good)(handler)
    if loaded:
        assert put(server).answer == "x"
    else:
        error = refusal(server)
        assert "HTTP 503: Loading model" in error.message
        assert "keyelab status" in error.hint
        assert len(left) in (96, 97)


@pytest.mark.parametrize(
    ("finish", "message", "reasoning"),
    [
        ("length", {"content": "", "reasoning_content": "The first frame"}, "The first frame"),
        ("stop", {"content": None}, ""),
    ],
)
def test_an_answer_that_is_not_streamed_is_taken_too(
    server: Server, finish: str, message: dict[str, Any], reasoning: str
) -> None:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    server.script = answer(200, {"choices": [choice], "usage": {"completion_tokens": 2048}})
    reply = put(server)
    assert (reply.answer, reply.reasoning, reply.finish_reason) == ("", reasoning, finish)
    assert reply.usage == {"completion_tokens": 2048}


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
        with pytest.raises(
            KeyelabError, match=r"nothing listens there: llama-server \(pid 1\)"
        ) as caught:
            ask(facts(url), BODY, timeout_s=2, kept=Path("reply.jsonl"))
    assert "keyelab run --from serve" in caught.value.hint


def test_the_key_of_the_environment_is_sent_and_its_proxy_not_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("LLAMA_API_KEY", "planted-key")
    server.script = stream(delta("stop", content="x"), "data: [DONE]")
    assert put(server).answer == "x"
    assert server.headers["Authorization"] == "Bearer planted-key"
