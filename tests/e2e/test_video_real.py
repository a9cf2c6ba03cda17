"""Demo clips asked about for real: the answers are true, and faults change them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy
import pytest
import requests
from llama import TILE_PX, running
from perflog import read_log

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.params import VideoTest
from keyelab.video import budget, chat, frame, native, question, score, verify
from keyelab.video.budget import Budget
from keyelab.video.demo import Story, draw, make_clip
from keyelab.video.frame import Frame
from keyelab.video.probe import probe
from keyelab.video.sample import Pick

pytestmark = pytest.mark.e2e
LABEL = "Frame {number}:"
Ask = Callable[..., chat.Reply]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFacts]:
    """A running llama-server with the demo model."""
    with running(tmp_path_factory.mktemp("server")) as facts:
        yield facts


@pytest.fixture
def put(server: ServeFacts, tmp_path: Path) -> chat.Put:
    """Sends a request to the server."""
    return chat.asking(server, timeout_s=60, kept=tmp_path / "reply.jsonl")


@pytest.fixture
def ask(put: chat.Put) -> Ask:
    """Ask about frames as 07_video_test does."""

    def about(frames: list[Frame], label: str = LABEL, **over: Any) -> chat.Reply:
        params = VideoTest(frame_text=label, **{"max_tokens": 64, **over})
        return put(question.request(frames, params, "", params.prompt))

    return about


def frames_of(folder: Path, story: Story, max_frames: int = 10) -> list[Frame]:
    info = probe(make_clip(folder / "clip.mp4", story))
    params = VideoTest(max_frames=max_frames, frame_size_px=96)
    return frame.sampled(info, params, tile_px=TILE_PX)[1]


def drawn(story: Story, *shares: float) -> list[Frame]:
    pictures = enumerate((draw(story, share) for share in shares), 1)
    return [frame.encode(one, Pick(None, number), number, 90) for number, one in pictures]


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
@pytest.mark.parametrize("label", [LABEL, VideoTest().frame_text])
def test_the_truth_is_told(tmp_path: Path, ask: Ask, story: Story, label: str) -> None:
    reply = ask(frames_of(tmp_path, story), label)
    assert reply.answer == story.caption
    checks = verify.answer_checks(reply, max_tokens=64)
    checks += verify.fact_checks(reply.answer, [f"{story.colour}|红", story.shape, story.motion])
    assert {item.status for item in checks} == {"ok"}


def test_reversed_frames_reverse_the_answer(tmp_path: Path, ask: Ask) -> None:
    frames = frames_of(tmp_path, Story())
    assert ask(reversed_order(frames)).answer == Story(motion="left").caption


def test_swapped_colours_are_no_longer_red(tmp_path: Path, ask: Ask) -> None:
    frames = [swapped_colours(one) for one in frames_of(tmp_path, Story())]
    assert ask(frames).answer == Story(colour="blue").caption


def counted(frames: list[Frame], label: str, put: chat.Put) -> Budget:
    picks = [one.pick for one in frames]
    return budget.measured(frames[0], picks, VideoTest(frame_text=label, max_tokens=64), 4096, put)


def test_the_budget_is_the_servers_count_to_the_token(
    tmp_path: Path, ask: Ask, put: chat.Put
) -> None:
    frames = frames_of(tmp_path, Story())
    for label in (LABEL, VideoTest().frame_text):
        known = counted(frames, label, put)
        assert ask(frames, label).prompt_tokens == known.prompt_tokens(len(frames))


def test_neighbouring_frames_are_merged_in_pairs_unless_text_stands_between(
    tmp_path: Path, ask: Ask, put: chat.Put
) -> None:
    """A fault of b9631 to b10502; with a server of another version this fails: then say so here."""
    frames = frames_of(tmp_path, Story(), 8)
    found = {}
    for label in ("", LABEL):
        known = counted(frames, label, put)
        found[label] = verify.arrival_check(frames, 8, known, [ask(frames, label)])
    assert found[LABEL].status == "ok"
    assert found[""].status == "warned"
    assert "4 frames short" in found[""].found
    assert ask(frames[:2], "").prompt_tokens == ask(frames[:1], "").prompt_tokens


def test_a_second_video_gets_the_first_ones_motion_unless_text_stands_between(ask: Ask) -> None:
    """The prompt cache of b10019 knows a merged pair by its first frame only."""
    right, left = (drawn(Story(motion=one), 0.5, 0.5, 0.5, 1.0) for one in ("right", "left"))
    assert [one.jpeg for one in right[:3]] == [one.jpeg for one in left[:3]]
    assert ask(right, "").answer == Story().caption
    assert ask(left, "").answer == Story().caption, "the stale answer"
    for frames, motion in ((right, "right"), (left, "left"), (right, "right")):
        assert ask(frames).answer.endswith(f" {motion}")


def test_a_second_question_reuses_the_frames(tmp_path: Path, put: chat.Put) -> None:
    frames = frames_of(tmp_path, Story("blue", "square", "up"))
    params = VideoTest(
        frame_text=LABEL, more_prompts=["What shape is it?", "What colour is it?"], max_tokens=64
    )
    bodies = question.requests_for(frames, params, "")
    replies = chat.ask_each(put, bodies)
    assert replies[0].answer == "a blue square moves up"
    assert replies[1].cached_tokens is not None
    told = verify.question_rows([params.prompt, *params.more_prompts], replies)
    known = counted(frames, LABEL, put)
    for row in told[1:]:
        assert row["cached (tokens)"] >= len(frames) * known.frame_tokens
        assert row["cached (tokens)"] < row["prompt (tokens)"]


def test_an_answer_cut_by_the_limit_is_seen(tmp_path: Path, ask: Ask) -> None:
    reply = ask(frames_of(tmp_path, Story(), 3), max_tokens=2)
    checks = verify.answer_checks(reply, max_tokens=2)
    assert [item.name for item in checks if item.status == "failed"] == ["finish reason"]


def test_too_many_frames_name_both_numbers(tmp_path: Path, ask: Ask) -> None:
    with pytest.raises(KeyelabError, match=r"the prompt has \d+ tokens and .* 4096") as caught:
        ask(frames_of(tmp_path, Story()) * 50)
    assert "video_test.max_frames" in caught.value.hint


def test_a_request_beyond_the_servers_limit_is_refused(put: chat.Put) -> None:
    long = question.body([question.text("a" * (101 * 2**20))], VideoTest(), "")
    with pytest.raises(KeyelabError, match="HTTP 413") as caught:
        put(long)
    assert "100 MiB" in caught.value.hint


def test_the_servers_log_tells_the_same_story(tmp_path: Path, server: ServeFacts, ask: Ask) -> None:
    reply = ask(frames_of(tmp_path, Story("white", "square", "left"), 6))
    task = None
    for _ in range(50):  # the log is written by a thread of its own
        tasks = read_log(Path(server.log)).tasks
        task = list(tasks.values())[-1] if tasks else None
        if task and task.context_tokens:
            break
        time.sleep(0.1)
    assert task is not None
    assert task.images == 6
    assert task.context_tokens == reply.prompt_tokens
    assert reply.ttft_s is not None
    assert 0 < reply.ttft_s <= reply.total_s


def endless(words: str = "hi") -> dict[str, Any]:
    """A request that the server answers for seconds."""
    body = question.body([question.text(words)], VideoTest(max_tokens=4000), "")
    return {**body, "ignore_eos": True}


def busy(server: ServeFacts) -> bool:
    slots = requests.get(server.url + "/slots", timeout=5).json()
    return any(slot["is_processing"] for slot in slots)


def test_a_timeout_cancels_the_servers_task(server: ServeFacts, tmp_path: Path) -> None:
    heard: list[str] = []
    put = chat.asking(server, timeout_s=0.6, kept=tmp_path / "reply.jsonl", on_text=heard.append)
    with pytest.raises(KeyelabError, match=r"within 0.6 s, stopped waiting after \d+ characters"):
        put(endless())
    deadline = time.monotonic() + 1.0
    while busy(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not busy(server)
    assert len(heard) < 3000, "it was cancelled and had not ended by itself"
    assert len((tmp_path / "reply.jsonl").read_text().splitlines()) > 2, "what came is kept"


def test_a_server_killed_in_the_middle_of_an_answer_is_named(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        heard: list[str] = []

        def kill(text: str) -> None:
            heard.append(text)
            if len(heard) == 20:
                os.kill(server.pid, signal.SIGKILL)

        put = chat.asking(server, timeout_s=30, kept=tmp_path / "reply.jsonl", on_text=kill)
        with pytest.raises(KeyelabError) as caught:
            put(endless())
        assert "the connection was lost after" in caught.value.message
        assert "SIGKILL" in caught.value.message


def test_a_wrong_key_and_a_full_cache_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("-np", "2", "-kvu", "--api-key", "right-0123456789")
    with running(tmp_path, words, context_tokens=600) as server:
        put = chat.asking(server, timeout_s=60, kept=tmp_path / "reply.jsonl")
        with pytest.raises(KeyelabError, match="401") as caught:
            put(endless())
        assert "LLAMA_API_KEY" in caught.value.hint
        monkeypatch.setenv("LLAMA_API_KEY", "right-0123456789")
        said: list[str] = []

        def one(number: int) -> None:
            put = chat.asking(server, timeout_s=60, kept=tmp_path / f"{number}.jsonl")
            try:
                put(endless(str(number)))
            except KeyelabError as error:
                said.append(str(error))

        threads = [threading.Thread(target=one, args=(number,)) for number in (1, 2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert said
        assert all("the context that all slots share is full" in text for text in said)


def test_the_video_itself_is_asked_about(tmp_path: Path, server: ServeFacts, put: chat.Put) -> None:
    story = Story("green", "circle", "left")
    info = probe(make_clip(tmp_path / "clip.mp4", story))
    params = VideoTest(mode="native", max_tokens=64)
    native.require(info, server)
    verdict = native.check_of(info, params, server, TILE_PX)
    (body,) = native.requests_for(info, params, "")
    reply = put(body)
    assert reply.answer == story.caption
    assert verdict.status == "ok"
    assert reply.prompt_tokens is not None
    assert reply.prompt_tokens > 8 * 9, "16 frames in 8 pairs of 9 tokens, with marks and times"
    assert "16 frames in pairs of 11" in verdict.found


def test_a_server_without_ffmpeg_says_so_when_it_is_sent_a_video(tmp_path: Path) -> None:
    info = probe(make_clip(tmp_path / "clip.mp4", Story()))
    with running(tmp_path, env={"PATH": "/nonexistent"}) as server:
        native.require(info, server)  # it promises to take videos all the same
        put = chat.asking(server, timeout_s=60, kept=tmp_path / "reply.jsonl")
        with pytest.raises(KeyelabError, match="ffmpeg and ffprobe are missing"):
            put(native.requests_for(info, VideoTest(), "")[0])


def test_a_folder_of_clips_is_scored_against_its_truth(tmp_path: Path, put: chat.Put) -> None:
    stories = [Story(), Story("blue", "square", "up"), Story("yellow", "triangle", "left")]
    truth = {}
    for number, story in enumerate(stories):
        name = make_clip(tmp_path / f"{number}.mp4", story).name
        truth[name] = {"expect": [story.colour, story.shape, story.motion]}
    truth["2.mp4"]["expect"] = ["no such thing"]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    params = VideoTest(frame_text=LABEL, frame_size_px=96, max_tokens=64)
    results = score.score(score.clips(tmp_path), put, params, tile_px=TILE_PX)
    assert [one.right for one in results] == [True, True, False]
    assert results[0].answer == stories[0].caption
    assert score.check_of(results, 0.6).status == "ok"
    assert score.check_of(results, 1.0).status == "failed"
