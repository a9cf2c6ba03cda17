"""Demo clips asked about for real: the answers are true, and faults change them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy
import pytest
import requests

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.params import VideoTest
from keyelab.perf.reader import read_log
from keyelab.perf.verify import find_task
from keyelab.video import chat, frame, question, sample, verify
from keyelab.video.demo import Story, make_clip
from keyelab.video.frame import Frame
from keyelab.video.probe import probe

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
MODELS = ROOT / "keyelab" / "models" / "demo"


def find_server() -> Path:
    """llama-server of KEYELAB_BIN (a folder) or of the newest build below work/builds."""
    named = os.environ.get("KEYELAB_BIN")
    if named:
        found = [Path(named) / "llama-server"]
    else:
        built = ROOT.glob("work/builds/*/bin/llama-server")
        real = [path for path in built if path.read_bytes()[:4] == b"\x7fELF"]  # not the fake one
        found = sorted(real, key=lambda path: path.stat().st_mtime)
    if not found or not found[-1].is_file():
        pytest.fail(
            "no llama-server: set KEYELAB_BIN to the folder that holds it, "
            "or build one first: keyelab run --to build"
        )
    return found[-1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and log of a running llama-server with the demo model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "server.log"
    argv = [
        str(find_server()), "-m", str(MODELS / "keyelab-tiny-f16.gguf"),
        "--mmproj", str(MODELS / "mmproj-keyelab-tiny-f16.gguf"), "-c", "4096", "-np", "1",
        "--cache-ram", "0", "-lv", "4", "--port", str(port),
    ]  # fmt: skip
    with log.open("wb") as sink, subprocess.Popen(argv, stdout=sink, stderr=sink) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url, process, log)
            yield url, log
        finally:
            process.terminate()
            process.wait(20)


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        with contextlib.suppress(requests.exceptions.ConnectionError):
            if requests.get(url + "/health", timeout=2).ok:
                return
        time.sleep(0.1)
    pytest.fail(f"the server was not ready after 60 s: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module")
def ask(server: tuple[str, Path]) -> Callable[..., chat.Reply]:
    """Ask about frames as 07_video_test does."""

    def put(frames: list[Frame], label: str = "Frame {number}:", **over: Any) -> chat.Reply:
        params = VideoTest(frame_text=label, **{"max_tokens": 64, **over})
        body = question.request(frames, params, model="")
        facts = ServeFacts(
            url=server[0], pid=0, state_file="", log=str(server[1]), alias="", build_info="",
            model_path="", context_tokens=None, slots=None, ready_s=0.0, command="",
        )  # fmt: skip
        kept = server[1].with_name("reply.jsonl")
        return chat.ask(facts, body, timeout_s=60, kept=kept)

    return put


def frames_of(folder: Path, story: Story, max_frames: int = 10) -> list[Frame]:
    info = probe(make_clip(folder / "clip.mp4", story))
    wanted = sample.plan(info, fps=2.0, max_frames=max_frames)
    return frame.collect(info, wanted, size_px=96, jpeg_quality=90)


def reversed_order(frames: list[Frame]) -> list[Frame]:
    return [replace(one, number=i) for i, one in enumerate(frames[::-1], 1)]


def swapped_colours(one: Frame) -> Frame:
    picture = cv2.imdecode(numpy.frombuffer(one.jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    _, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])
    return replace(one, jpeg=data.tobytes())


@pytest.mark.parametrize(
    "story",
    [
        Story(),
        Story(motion="left"),
        Story("blue", "square", "up"),
        Story("green", "triangle", "down"),
        Story("yellow", "circle", "still"),
    ],
    ids=lambda story: story.caption,
)
def test_the_truth_is_told(tmp_path: Path, ask: Callable[..., chat.Reply], story: Story) -> None:
    reply = ask(frames_of(tmp_path, story))
    assert reply.answer == story.caption
    checks = verify.answer_checks(reply, expect=story.caption, max_tokens=64)
    assert {item.status for item in checks} == {"ok"}


def test_reversed_frames_reverse_the_answer(tmp_path: Path, ask: Callable[..., chat.Reply]) -> None:
    frames = frames_of(tmp_path, Story())
    assert ask(reversed_order(frames)).answer == Story(motion="left").caption


def test_swapped_colours_are_no_longer_red(tmp_path: Path, ask: Callable[..., chat.Reply]) -> None:
    frames = [swapped_colours(one) for one in frames_of(tmp_path, Story())]
    assert ask(frames).answer == Story(colour="blue").caption


def test_frames_merged_by_the_server_show_in_the_tokens(
    tmp_path: Path, ask: Callable[..., chat.Reply]
) -> None:
    frames = frames_of(tmp_path, Story())
    labels = ("Frame {number}:", "")
    used = [ask(frames, label).usage["prompt_tokens"] for label in labels]
    assert [verify.vision_check(frames, n).status for n in used] == ["ok", "warned"]


def test_an_answer_cut_by_the_limit_is_seen(tmp_path: Path, ask: Callable[..., chat.Reply]) -> None:
    reply = ask(frames_of(tmp_path, Story(), 3), max_tokens=2)
    checks = verify.answer_checks(reply, expect="", max_tokens=2)
    assert [item.name for item in checks if item.status == "failed"] == ["finish reason"]


def test_too_many_frames_name_both_numbers(tmp_path: Path, ask: Callable[..., chat.Reply]) -> None:
    with pytest.raises(KeyelabError, match=r"the prompt has \d+ tokens and .* 4096") as caught:
        ask(frames_of(tmp_path, Story()) * 50)
    assert "video_test.max_frames" in caught.value.hint


def test_the_servers_log_tells_the_same_story(
    tmp_path: Path, server: tuple[str, Path], ask: Callable[..., chat.Reply]
) -> None:
    reply = ask(frames_of(tmp_path, Story("white", "square", "left"), 6))
    task = None
    for _ in range(50):  # the log is written by a thread of its own
        task = find_task(read_log(server[1]), reply.timings)
        if task and task.context_tokens:
            break
        time.sleep(0.1)
    assert task is not None
    assert task.images == 6
    assert task.context_tokens == reply.usage["prompt_tokens"]
    assert reply.ttft_s is not None
    assert 0 < reply.ttft_s <= reply.total_s
