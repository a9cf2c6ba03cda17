from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import probe


class Handler(BaseHTTPRequestHandler):
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        answers = {
            "/health": (200, '{"status":"ok"}'),
            "/loading": (503, '{"error": {"message": "Loading model"}}'),
            "/proxy": (200, "<html>"),
            "/list": (200, "[1]"),
            "/locked": (401, '{"error": {"message": "Invalid API Key"}}'),
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


@pytest.mark.parametrize("path", ["/loading", "/proxy", "/list"])
def test_whatever_is_no_object_with_status_200_is_none(url: str, path: str) -> None:
    assert probe.get(url, path) is None


def test_refused_key_is_one_sentence_without_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "never-shown-by-anything")
    with pytest.raises(KeyelabError, match="refuses the API key") as error:
        probe.get(url, "/locked")
    assert "never-shown-by-anything" not in str(error.value)


def test_proxy_variables_are_not_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert probe.get(url, "/health") == {"status": "ok"}


def test_key_of_the_environment_is_sent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe.get(url, "/health")
    monkeypatch.setenv("LLAMA_API_KEY", "a-key-of-the-environment")
    probe.get(url, "/health")
    assert Handler.seen == [None, "Bearer a-key-of-the-environment"]


def test_nobody_there_is_none() -> None:
    assert probe.get("http://127.0.0.1:9", "/health", timeout_s=1) is None
