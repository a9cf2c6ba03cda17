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


def test_pings_and_the_empty_role_are_no_first_text(server: Server) -> None:
    server.script = stream(
        ROLE, ":", delta(content=""), ":", 0.3, delta("stop", content="b"), "data: [DONE]"
    )
    reply = put(server)
    assert reply.ttft_s is not None
    assert reply.ttft_s >= 0.3


def read(done: int) -> str:
    told = {"total": 1000, "cache": 40, "processed": done, "time_ms": 5}
    return "data: " + json.dumps({"choices": [], "prompt_progress": told})


def test_a_long_prompt_tells_how_far_it_is_and_a_short_one_is_quiet(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float | None, str]] = []
    script = stream(ROLE, read(200), 0.4, read(500), read(1000), delta("stop", content="b"))
    for patience_s in (5.0, 0.3):
        monkeypatch.setattr(chat, "_QUIET_S", patience_s)
        server.script = script
        put(server, on_progress=lambda share, text: told.append((share, text)))
    assert told == [
        (0.5, "prompt: 500 of 1,000 tokens, 40 cached"),
        (1.0, "prompt: 1,000 of 1,000 tokens, 40 cached"),
    ]


def question(words: str) -> dict[str, Any]:
    part = {"type": "text", "text": words}
    return {"messages": [{"role": "user", "content": [part]}], "max_tokens": 9}


def test_questions_are_asked_in_order_and_one_that_fails_does_not_take_the_others(
    server: Server,
) -> None:
    good = stream(delta("stop", content="yes"))
    scripts = [good, answer(500, {"error": {"message": "boom"}}), good]
    server.script = lambda handler: scripts.pop(0)(handler)
    heard: list[str] = []
    asking = chat.asking(
        facts(server.url), timeout_s=5, kept=Path("reply.jsonl"), on_text=heard.append
    )
    replies = chat.ask_each(asking, [question(f"q{i}") for i in (1, 2, 3)], on_text=heard.append)
    assert [reply.answer for reply in replies] == ["yes", "", "yes"]
    assert replies[1].error is not None
    assert "boom" in replies[1].error.message
    said = "".join(heard)
    assert said.startswith("[1] q1\nyes\n[2] q2\n[no answer] ")
    assert said.endswith("[3] q3\nyes\n")
    assert [path.name for path in sorted(Path().glob("reply*"))] == [
        "reply-2.jsonl", "reply-3.jsonl", "reply.jsonl",
    ]  # fmt: skip


def test_when_no_question_is_answered_the_first_error_is_raised(server: Server) -> None:
    scripts = [answer(500, {"error": {"message": said}}) for said in ("one", "two")]
    server.script = lambda handler: scripts.pop(0)(handler)
    asking = chat.asking(facts(server.url), timeout_s=5, kept=Path("reply.jsonl"))
    with pytest.raises(KeyelabError, match="HTTP 500: one"):
        chat.ask_each(asking, [question("a"), question("b")])


def test_cached_tokens_come_from_the_timings_or_else_from_the_usage() -> None:
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}
    assert Reply(usage=usage).cached_tokens == 7
    assert Reply(usage=usage, timings={"cache_n": 6}).cached_tokens == 6
    assert Reply().cached_tokens is None


def test_reasoning_starts_the_answer_too(server: Server) -> None:
    server.script = stream(delta(reasoning_content="a"), 0.3, delta("stop", content="b"))
    assert (put(server).ttft_s or 9) < 0.25


def refusal(server: Server, **kwargs: Any) -> KeyelabError:
    with pytest.raises(KeyelabError) as caught:
        put(server, **kwargs)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


# bodies of llama-server b10019 as they came, of a server with -c 600 -np 2 -kvu
EXCEEDED = {
    "code": 400,
    "message": "request (970 tokens) exceeds the available context size (768 tokens), "
    "try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 970,
    "n_ctx": 768,
}
IN_WORDS = {name: EXCEEDED[name] for name in ("code", "message", "type")}
FULL = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}


@pytest.mark.parametrize("error", [EXCEEDED, IN_WORDS], ids=["fields", "words"])
@pytest.mark.parametrize("form", ["400", "200", "stream", "error line"])
def test_context_exceeded_has_one_diagnosis_in_every_form(
    server: Server, error: dict[str, Any], form: str
) -> None:
    server.script = {
        "400": answer(400, {"error": error}),
        "200": answer(200, {"error": error}),
        "stream": stream("data: " + json.dumps({"error": error})),
        "error line": stream("error: " + json.dumps(error)),
    }[form]
    found = refusal(server)
    assert found.message == "the prompt has 970 tokens and the context of a slot 768"
    assert "max_frames" in found.hint
    assert "1070 tokens" in found.hint


def test_the_cells_that_slots_share_may_be_full_in_the_middle_of_an_answer(server: Server) -> None:
    server.script = stream(
        ROLE, delta(content="triangle"), "data: " + json.dumps({"error": FULL}), whole=False
    )
    error = refusal(server)
    assert "the context that all slots share is full" in error.message
    assert "serve.parallel: 1" in error.hint


def test_a_video_that_the_server_cannot_open_names_ffmpeg_and_the_way_without(
    server: Server,
) -> None:
    said = "Failed to load image or audio file"
    error = {"code": 400, "message": said, "type": "invalid_request_error"}
    server.script = answer(400, {"error": error})
    parts = [{"type": "input_video", "input_video": {"data": "AAAA"}}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 9}
    with pytest.raises(KeyelabError, match="ffmpeg and ffprobe are missing") as caught:
        ask(facts(server.url), body, timeout_s=5, kept=Path("reply.jsonl"))
    assert "video_test.mode: frames" in caught.value.hint


def test_a_web_page_is_named_by_its_title(server: Server) -> None:
    page = b"<html><head><title>502\nBad  Gateway</title></head><body>" + b"x" * 5000 + b"</body>"
    server.script = answer(502, page)
    error = refusal(server)
    assert error.message == "expected an answer, found HTTP 502: a web page: 502 Bad Gateway"
    assert "http_proxy" in error.hint


@pytest.mark.parametrize(
    ("status", "content", "said", "remedy"),
    [
        (401, {"error": {"message": "Invalid API Key"}}, "401: Invalid API Key", "LLAMA_API_KEY"),
        (413, b"<html>too large</html>", "too large", "jpeg_quality"),
        (413, b"", "HTTP 413: no word", "100 MiB"),
        (500, b"", "HTTP 500: no word", "log"),
        (200, b"<html><title>Login</title></html>", "a web page: Login", "http_proxy"),
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


def test_an_event_cut_in_the_middle_is_a_lost_connection(server: Server) -> None:
    server.script = stream(delta(content="so"), 'data: {"choices": [{"del')
    assert "the connection was lost after 2 characters" in refusal(server).message


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
    monkeypatch.setenv("LLAMA_API_KEY", "planted-key-0123456789")
    server.script = stream(delta("stop", content="x"), "data: [DONE]")
    assert put(server).answer == "x"
    assert server.headers["Authorization"] == "Bearer planted-key-0123456789"


def test_the_key_of_a_file_is_sent_and_the_environments_is_not(
    server: Server, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "other")
    key = folder / "key"
    key.write_text("planted-key-of-a-file\n")
    key.chmod(0o600)
    server.script = stream(delta("stop", content="x"), "data: [DONE]")
    serving = facts(server.url).model_copy(update={"api_key_file": str(key)})
    assert ask(serving, BODY, timeout_s=5, kept=Path("reply.jsonl")).answer == "x"
    assert server.headers["Authorization"] == "Bearer planted-key-of-a-file"
    assert "planted-key" not in Path("reply.jsonl").read_text()
