"""Downloads against a small local server: whole or not there, within the limit, no secret shown."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.video import download as module
from keyelab.video.download import download
from keyelab.video.probe import probe

MIB = 2**20


class Handler(BaseHTTPRequestHandler):
    """Answers by path."""

    protocol_version = "HTTP/1.1"
    clip = b""
    seen: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.close_connection = True
        self.seen.append(self.path)
        if path.startswith("/to/"):
            self.redirect(f"/{path[4:]}")
        elif path == "/loop":
            self.redirect("/loop")
        elif path == "/to-file":
            self.redirect("file:///etc/hostname")
        elif path == "/missing.mp4":
            self.answer(b"<html>no</html>", "text/html", 404)
        elif path == "/private.mp4":
            self.answer(b"no", "text/plain", 401)
        elif path == "/page":
            self.answer(b"<html></html>", "text/html; charset=utf-8")
        elif path == "/huge.mp4":
            self.answer(b"", "video/mp4", length=3 * MIB)
        elif path == "/endless.mp4":
            self.answer(b"x" * 3 * MIB, "video/mp4", length=None)
        elif path == "/cut.mp4":
            self.answer(self.clip[:-100], "video/mp4", length=len(self.clip))
        elif path == "/silent.mp4":
            time.sleep(1.5)
        elif path == "/stalls.mp4":
            self.answer(self.clip[:500], "video/mp4", length=len(self.clip))
            self.wfile.flush()
            time.sleep(1.5)
        else:
            self.answer(self.clip, "video/mp4")

    def redirect(self, where: str) -> None:
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Connection", "close")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, body: bytes, kind: str, status: int = 200, length: int | None = -1) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # a client that left is no failure here
            return

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(make_video: Any) -> Iterator[str]:
    """The address of a server that has a clip."""
    Handler.clip = make_video("source/clip.mp4").read_bytes()
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


@pytest.fixture
def fetch(server: str, tmp_path: Path) -> Callable[..., Path]:
    """Downloads a path of the server."""
    folder = tmp_path / "videos"
    return lambda path, max_mib=2: download(server + path, folder, max_mib=max_mib)


@pytest.mark.parametrize(
    ("path", "stem", "suffix"),
    [
        ("/a/clip.mp4", "clip", ".mp4"),
        ("/to/a/clip.mp4?sig=SECRET", "clip", ".mp4"),
        ("/watch?v=SECRET", "watch", ""),
        ("/%E6%BC%94%E7%A4%BA%20100%25d.webm#t=3", "演示-100-d", ".webm"),
        ("/", "video", ""),
        ("/..%2F..%2Fevil.mp4", "evil", ".mp4"),
    ],
)
def test_a_video_comes_whole_under_a_name_of_its_content(
    fetch: Callable[..., Path], path: str, stem: str, suffix: str, tmp_path: Path
) -> None:
    found = fetch(path)
    digest = hashlib.sha256(Handler.clip).hexdigest()[:16]
    assert found == tmp_path / "videos" / f"{stem}-{digest}{suffix}"
    assert found.read_bytes() == Handler.clip
    assert probe(found).frames == 20
    assert fetch(path) == found, "again gives the same file"
    assert [entry.name for entry in found.parent.iterdir()] == [found.name]


@pytest.mark.parametrize(
    ("path", "said", "remedy"),
    [
        ("/missing.mp4", "found HTTP 404", "browser"),
        ("/private.mp4", "found HTTP 401", "netrc"),
        ("/page", r"found a web page \(text/html\)", "the file itself"),
        ("/huge.mp4", "at most 2 MiB at .*, found 3.0 MiB", "max_download_mib"),
        ("/endless.mp4", "at most 2 MiB at .*, found more than 2 MiB", "max_download_mib"),
        ("/cut.mp4", r"the connection broke after 0\.0 MiB", "yourself"),
        ("/loop", "redirects without an end", "yourself"),
        ("/to-file", "not http or https", "yourself"),
        ("/silent.mp4", "found 0.0 MiB and then silence for 0.3 s", "yourself"),
        ("/stalls.mp4", r"found 0\.0 MiB and then silence for 0.3 s", "yourself"),
    ],
)
def test_each_failure_is_one_sentence_and_leaves_nothing(
    fetch: Callable[..., Path], path: str, said: str, remedy: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "_SILENT_S", 0.3)
    with pytest.raises(KeyelabError, match=said) as caught:
        fetch(path + "?token=SECRET")
    assert "\n" not in caught.value.message
    assert remedy in caught.value.hint
    assert "SECRET" not in str(caught.value)
    assert "SECRET" not in repr(caught.value.__cause__)
    assert not list((tmp_path / "videos").iterdir())


def test_nobody_there_is_said_without_the_address_of_the_request(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match=r"http://127\.0\.0\.1:9/v\.mp4, found no server"):
        download("http://127.0.0.1:9/v.mp4?key=SECRET", tmp_path, max_mib=1)


@pytest.mark.parametrize("url", ["http://user:SECRET@h/v.mp4", "https://SECRET@h:8/v.mp4"])
def test_a_password_in_the_address_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="without a user name or password") as caught:
        download(url, tmp_path, max_mib=1)
    assert "netrc" in caught.value.hint
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://", "https:///v.mp4", "http://h:port/v.mp4"])
def test_an_address_without_a_host_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="found no host"):
        download(url, tmp_path, max_mib=1)


def test_a_full_disk_is_said_and_leaves_nothing(
    fetch: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(KeyelabError, match="found: No space left on device") as caught:
        fetch("/clip.mp4")
    assert caught.value.hint == "df -h"
    assert not list((tmp_path / "videos").iterdir())


def test_an_interrupt_leaves_nothing(
    fetch: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("/clip.mp4")
    assert not list((tmp_path / "videos").iterdir())
