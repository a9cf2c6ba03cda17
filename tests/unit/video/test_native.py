"""A video sent whole: only where it can be, with its tokens counted before."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.params import VideoTest
from keyelab.video import native
from keyelab.video.probe import VideoInfo, probe


def facts(url: str = "http://127.0.0.1:9", context_tokens: int | None = 4096) -> ServeFacts:
    return ServeFacts(
        url=url, pid=1, state_file="", log="", alias="tiny", build_info="b9442-x", model_path="",
        context_tokens=context_tokens, slots=1, ready_s=0.0, command="",
    )  # fmt: skip


@pytest.fixture
def refusing() -> Iterator[str]:
    """A server that refuses every key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, *args: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


@pytest.fixture
def props() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server whose /props are a dictionary to be filled."""
    said: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *args: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}", said
    http.shutdown()
    http.server_close()


def test_a_refused_key_is_not_a_server_without_videos(make_video: Any, refusing: str) -> None:
    with pytest.raises(KeyelabError, match=r"found none: 401"):
        native.require(probe(make_video()), facts(refusing))


def test_the_file_itself_stands_first_and_the_question_last(make_video: Any) -> None:
    path = make_video()
    params = VideoTest(prompt="one", more_prompts=["two"], mode="native")
    bodies = native.requests_for(probe(path), params, "m")
    parts = [body["messages"][0]["content"] for body in bodies]
    assert [part["type"] for part in parts[0]] == ["input_video", "text"]
    data = parts[0][0]["input_video"]["data"]
    assert base64.b64decode(data) == path.read_bytes(), "plain base64, no data URI"
    assert parts[0][0] == parts[1][0]
    assert [one[-1]["text"] for one in parts] == ["one", "two"]


def test_a_server_that_takes_videos_is_accepted(make_video: Any, props: Any) -> None:
    url, said = props
    said["modalities"] = {"vision": True, "video": True}
    native.require(probe(make_video()), facts(url))
    native.require(probe(make_video()), None)


@pytest.mark.parametrize("modalities", [{"vision": True, "video": False}, {"vision": True}])
def test_a_server_without_videos_is_one_clear_sentence(
    make_video: Any, props: Any, modalities: dict[str, bool]
) -> None:
    url, said = props
    said["modalities"] = modalities
    with pytest.raises(KeyelabError, match=r"tiny \(b9442-x\) does not") as caught:
        native.require(probe(make_video()), facts(url))
    assert caught.value.hint == "set video_test.mode: frames"


def test_a_server_that_is_not_there_is_said(make_video: Any) -> None:
    with pytest.raises(KeyelabError, match="found none"):
        native.require(probe(make_video()), facts())


def test_a_turned_video_is_refused_with_the_command_that_turns_it(
    make_video: Any, turned: Any
) -> None:
    path = make_video("my clip.mp4")
    turned(path)
    with pytest.raises(KeyelabError, match="llama-server would scramble it") as caught:
        native.require(probe(path), None)
    assert "ffmpeg -i '" in caught.value.hint


def test_a_folder_of_pictures_is_no_video(tmp_path: Path) -> None:
    info = VideoInfo(tmp_path, "picture folder", "", 1, 1, 1, (), 0.0, None, None)
    with pytest.raises(KeyelabError, match="expected a video file"):
        native.require(info, None)


def test_a_file_beyond_the_servers_limit_is_refused_before_it_is_read(make_video: Any) -> None:
    path = make_video()
    with path.open("r+b") as stream:
        stream.truncate(80 * 2**20)  # sparse; 107 MiB in base64
    info = replace(VideoInfo(path, "mp4", "h264", 9, 9, 1, (), 0.1, 1.0, 1.0))
    with pytest.raises(KeyelabError, match="at most 100 MiB"):
        native.require(info, None)


def test_tokens_are_counted_with_four_frames_a_second(make_video: Any) -> None:
    info = replace(probe(make_video(count=20)), width=96, height=96)  # 2 s: 8 frames, 4 pairs
    params = VideoTest(max_tokens=64)
    fits = native.check_of(info, params, facts(), 32)
    assert (fits.status, fits.found) == (
        "ok", "about 108 tokens: 8 frames in pairs of 11, and the answer",
    )  # fmt: skip
    assert native.check_of(info, params, facts(context_tokens=107), 32).status == "warned"
    assert native.check_of(info, params, None, 32).status == "unknown"
    unknown = replace(info, duration_s=None)
    assert native.check_of(unknown, params, facts(), 32).status == "unknown"
