from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from keyelab.serving import probe

LOADING = '{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}'


class Handler(BaseHTTPRequestHandler):
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        answers = {
            "/health": (200, '{"status":"ok"}'),
            "/loading": (503, LOADING),
            "/proxy": (503, "proxy: host not allowed"),
            "/list": (200, "[1]"),
        }
        status, body = answers[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *words: object) -> None:
        return None


@pytest.fixture
def url() -> Iterator[str]:
    Handler.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_loading_is_told_from_a_proxy_that_also_says_503(url: str) -> None:
    loading, proxy = probe.get(url, "/loading"), probe.get(url, "/proxy")
    assert loading is not None
    assert loading.loading
    assert proxy is not None
    assert not proxy.loading
    assert proxy.text == "proxy: host not allowed"


def test_proxy_variables_are_not_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    answer = probe.get(url, "/health")
    assert answer is not None
    assert answer.json == {"status": "ok"}


def test_key_of_the_environment_is_sent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe.get(url, "/health")
    monkeypatch.setenv("LLAMA_API_KEY", "a-key")
    probe.get(url, "/health")
    assert Handler.seen == [None, "Bearer a-key"]


def test_body_that_is_no_object_is_none(url: str) -> None:
    answer = probe.get(url, "/list")
    assert answer is not None
    assert answer.json is None


def test_nobody_there_is_none() -> None:
    assert probe.get("http://127.0.0.1:9", "/health", timeout_s=1) is None
