"""The exam of the demo model: what it asks, counts as right and writes down.

The stub answers by looking at the frames as the model does, so it is right but for what it is
told to get wrong.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file
from keyelab.params import VideoTest
from keyelab.video import exam, unseen
from keyelab.video.asker import Asker
from keyelab.video.demo import Film, Story, make_clip
from keyelab.video.probe import probe

Answer = Callable[[list[dict[str, Any]]], str]


class Stub:
    """A server that answers what `answer` makes of the parts of a message."""

    def __init__(self, answer: Answer, model_path: str = "/nowhere/m.gguf") -> None:
        self.bodies: list[dict[str, Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self.say({"build_info": "b10019-stub", "model_path": model_path})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.bodies.append(body)
                parts = body["messages"][0]["content"]
                images = sum(part["type"] == "image_url" for part in parts)
                message = {"role": "assistant", "content": answer(parts)}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                self.say({"choices": [choice], "usage": {"prompt_tokens": 20 + 11 * images}})

            def say(self, value: dict[str, Any]) -> None:
                content = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


def pictures(parts: list[dict[str, Any]]) -> int:
    return sum(part["type"] == "image_url" for part in parts)


def counts(parts: list[dict[str, Any]]) -> str:
    """Right about the number of pictures and honest without any; the rest is wrong."""
    if not pictures(parts):
        return "I see no video."
    return str(pictures(parts)) if parts[-1]["text"] == exam.COUNT else "a grey blob"


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub(counts)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_right_and_wrong_answers_are_told_apart(tmp_path: Path, stub: Stub) -> None:
    heard: list[float | None] = []
    tally = exam.take_exam(
        stub.url, tmp_path, clips=10, on_progress=lambda share, text: heard.append(share)
    )
    assert heard == [number / 10 for number in range(1, 11)]
    rows = {row["asked"]: row for row in tally.rows()}
    for name in ("number of pictures", "no video"):
        assert (rows[name]["right"], rows[name]["of"], rows[name]["share"]) == (10, 10, 1.0)
    dropped = rows["half dropped: half the number"]
    assert dropped["right"] == dropped["of"] > 3
    for name in ("caption", "colour", "shape, asked in Chinese", "motion", "off topic"):
        assert (rows[name]["right"], rows[name]["of"]) == (0, 10)
    assert rows["motion in the caption"]["of"] == 9, "a single picture does not move"
    assert tally.wrong[0]["answer"] == "a grey blob"
    assert "| no video | 10 | 10 | 100.0% |" in tally.table()


def test_every_request_is_greedy_uncached_and_carries_the_label(tmp_path: Path, stub: Stub) -> None:
    exam.take_exam(stub.url, tmp_path, clips=2, frame_text=VideoTest().frame_text)
    assert {body["temperature"] for body in stub.bodies} == {0}
    assert {body["cache_prompt"] for body in stub.bodies} == {False}
    first = stub.bodies[0]["messages"][0]["content"]
    assert first[0]["text"].startswith("Frame 1 (0.")
    assert first[1]["type"] == "image_url"


def test_the_same_seed_asks_the_same_questions(tmp_path: Path, stub: Stub) -> None:
    for seed in (1, 1, 2):
        exam.take_exam(stub.url, tmp_path, clips=2, seed=seed)
    bodies = [json.dumps(body) for body in stub.bodies]
    third = len(bodies) // 3
    assert bodies[:third] == bodies[third : 2 * third] != bodies[2 * third :]


@pytest.mark.parametrize("merges", [True, False])
def test_a_server_that_merges_pairs_is_expected_to_count_half(
    tmp_path: Path, merges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = Asker("http://127.0.0.1:1", tmp_path, "")
    prompt = {1: 20, 2: 20 if merges else 31}
    reply = type("Reply", (), {})

    def replied(pictures: list[Any], *_: Any) -> Any:
        made = reply()
        made.prompt_tokens = prompt[len(pictures)]
        return made

    monkeypatch.setattr(asker, "reply", replied)
    assert [asker.pictures_seen(frames) for frames in (1, 2, 7)] == (
        [1, 1, 4] if merges else [1, 2, 7]
    )
    assert Asker("http://127.0.0.1:1", tmp_path, "Frame:").pictures_seen(7) == 7


def test_a_late_clip_changes_in_its_last_tenth_and_a_turning_one_turns_once() -> None:
    dice = random.Random(1)
    for _ in range(50):
        late, turning = unseen.late(dice), unseen.turning(dice)
        assert (late.at, bool(late.then)) == (0.9, True)
        assert 0.5 < turning.at < 0.8
        assert turning.then not in (turning.motion, "still")
        assert turning.motion != "still"


@pytest.mark.parametrize("rate", [10, 12, 24, 30])
def test_the_long_clip_has_nineteen_candidates_and_the_article_takes_ten(
    tmp_path: Path, rate: int
) -> None:
    film = Film(rate=rate, duration_s=9.5)
    info = probe(make_clip(tmp_path / "clip.mp4", Story(), film))
    ours, article = exam.samplers(info, film).values()
    assert len(range(0, info.frames, rate // 2)) == 19
    assert [pick.index for pick in article] == [n * (rate // 2) for n in range(10)]
    assert (article[-1].time_s or 9) < 0.5 * 9.5
    assert (ours[-1].time_s or 0) > 0.9 * 9.5


def test_backwards_pictures_stand_at_the_places_of_the_right_order() -> None:
    order: Any = [("first", 1), ("second", 2), ("third", 3)]
    assert unseen.renamed(order, order[::-1]) == [("first", 3), ("second", 2), ("third", 1)]


def test_the_command_writes_who_was_asked_and_what_was_found(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"weights")
    stub, target = Stub(counts, str(model)), tmp_path / "exam.json"
    words = [stub.url, "--clips", "1", "--labels", "--json", str(target)]
    done = CliRunner().invoke(exam.main, words)
    stub.server.shutdown()
    stub.server.server_close()
    assert done.exit_code == 0, done.output
    assert "## 1 clips, labels 'Frame {number}:'" in done.output
    assert "no labels" not in done.output
    found = json.loads(target.read_text())
    assert found["server"] == "b10019-stub"
    assert found["model_sha256"] == {"model.gguf": sha256_file(model)}
    assert found["seed"] == 31337
    assert {"sizes", "qualities", "sampling"} < set(found["exams"])


def test_a_model_that_cannot_be_read_here_has_no_digest() -> None:
    assert exam.model_files("/nowhere/model.gguf") is None


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    done = CliRunner().invoke(exam.main, ["http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "expected llama-server at http://127.0.0.1:1, found ConnectionError" in done.output
    assert "keyelab run --to serve" in done.output


def test_a_server_that_ends_in_the_middle_is_the_same_sentence(tmp_path: Path, stub: Stub) -> None:
    asker = Asker(stub.url, tmp_path)
    assert asker([], exam.CAPTION) == "I see no video."
    stub.server.shutdown()
    stub.server.server_close()
    with pytest.raises(KeyelabError, match=f"expected llama-server at {stub.url}, found"):
        asker([], exam.CAPTION)
