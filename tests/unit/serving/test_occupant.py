from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from keyelab.serving import lock, occupant, probe

LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
LOCKED = {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
PROPS = {"build_info": "b9093-0123456789", "model_path": "/models/other.gguf"}
OK = (200, {"status": "ok"})


class Handler(BaseHTTPRequestHandler):
    """Answers as its server's `answers` say, signed as `sign`."""

    def do_GET(self) -> None:
        server: Any = self.server
        status, content = server.answers.get(self.path, (404, {}))
        server.keys.append(self.headers.get("Authorization"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def version_string(self) -> str:
        return str(getattr(self.server, "sign", ""))

    def log_message(self, *words: object) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        found: Any = made
        found.sign, found.answers, found.keys = "llama.cpp", {}, []
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield found
        made.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"/health": (503, LOADING)}, "a llama-server that is still loading (503)"),
        ({"/health": OK, "/props": (401, LOCKED)}, "a llama-server that wants an API key (401)"),
        (
            {"/health": OK, "/props": (200, PROPS)},
            "a llama-server b9093-0123456789, this one is b10019-x, with /models/other.gguf",
        ),
    ],
)
def test_llama_servers_are_told_apart(
    server: Any, answers: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "not-for-strangers")
    server.answers = answers
    who, remedy = occupant.of("127.0.0.1", server.server_port, os.getpid(), "b10019-x")
    assert who.endswith(said)
    assert remedy == f"stop it (kill {os.getpid()})"
    assert set(server.keys) == {None}


def test_other_http_server_is_named_by_its_signature(server: Any) -> None:
    server.sign, server.answers = "SimpleHTTP/0.6 Python/3.11", {"/health": (200, [])}
    said = occupant.kind(f"http://127.0.0.1:{server.server_port}")
    assert said == "an HTTP server that is no llama-server (SimpleHTTP/0.6 Python/3.11)"


def test_server_of_another_run_is_named_with_the_command_to_stop_it(server: Any) -> None:
    number = server.server_port
    with lock.held([lock.port(number)], {"run": "records/x"}):
        who, remedy = occupant.of("127.0.0.1", number, os.getpid())
    assert who.endswith("of keyelab run records/x")
    assert f"keyelab stop --port {number}" in remedy


def test_process_of_another_user_has_no_name() -> None:
    who, remedy = occupant.of("127.0.0.1", 9, None)
    assert who.startswith("a process of another user (ss -ltnp 'sport = :9')")
    assert remedy == "stop it"


def test_proxy_that_answers_instead_of_the_server_is_told(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert probe.proxied("http://127.0.0.1:9") == "", "no proxy is set"
    server.sign = "squid/5.7"
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    assert probe.proxied("http://127.0.0.1:9") == "HTTP 404 from squid/5.7"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert probe.proxied("http://127.0.0.1:8") == "nothing"
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    server.sign, server.answers = "llama.cpp", {"/health": OK}
    assert probe.proxied(f"http://127.0.0.1:{server.server_port}") == ""
