"""The demo model in a context of 8,192 tokens: what it still tells after thousands of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from llama import running

from keyelab.facts import ServeFacts
from keyelab.models.demo.words import FILLER
from keyelab.params import VideoTest
from keyelab.video import chat, frame, question, unseen
from keyelab.video.demo import make_clip
from keyelab.video.probe import probe

pytestmark = pytest.mark.e2e
PARAMS = VideoTest(frame_text="Frame {number}:", temperature=0, max_tokens=64)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFacts]:
    """The demo model with twice the context of cpu-demo's own."""
    with running(
        tmp_path_factory.mktemp("server"), ("-np", "1", "-t", "1"), context_tokens=8192
    ) as facts:
        yield facts


@pytest.fixture(scope="module")
def filler(server: ServeFacts) -> Callable[[random.Random, int], str]:
    """About so many tokens of words without a meaning, as the server counts them."""
    asked = requests.post(f"{server.url}/tokenize", json={"content": " ".join(FILLER)}, timeout=9)
    tokens_a_word = len(asked.json()["tokens"]) / len(FILLER)

    def made(dice: random.Random, tokens: int) -> str:
        words = (dice.choice(FILLER) for _ in range(round(tokens / tokens_a_word)))
        return f" {' '.join(words)} the"

    return made


@pytest.mark.parametrize(("tokens", "clips", "least"), [(1000, 10, 10), (7300, 6, 4)])
def test_a_clip_is_described_after_a_long_text_that_is_read_once(
    tmp_path: Path,
    server: ServeFacts,
    filler: Callable[[random.Random, int], str],
    tokens: int,
    clips: int,
    least: int,
) -> None:
    """Measured: of 15 clips 15 after 1,000, 3,000 and 5,000 tokens, 13 after 7,300 (b11434)."""
    dice = random.Random(tokens)
    put = chat.asking(server, timeout_s=120, kept=tmp_path / "reply.jsonl")
    text, right = filler(dice, tokens), 0
    for number in range(clips):
        story = unseen.story(dice, 8)
        info = probe(make_clip(tmp_path / "clip.mp4", story, unseen.film(dice)))
        frames = [
            frame.encode(rgb, pick, place, 90)
            for place, (pick, rgb) in enumerate(unseen.pictures(info, 8), 1)
        ]
        body = question.request(frames, PARAMS, "", PARAMS.prompt)
        parts = body["messages"][0]["content"]
        reply = put(question.body([question.text(text), *parts], PARAMS, ""))
        right += reply.answer == story.caption
        assert (reply.prompt_tokens or 0) == pytest.approx(tokens + 150, rel=0.1)
        if number:
            assert (reply.cached_tokens or 0) > 0.9 * tokens
    assert right >= least


@pytest.mark.parametrize(("tokens", "numbers"), [(1000, 10), (3000, 3), (6000, 1)])
def test_the_beginning_of_a_number_is_found_at_any_depth(
    tmp_path: Path,
    server: ServeFacts,
    filler: Callable[[random.Random, int], str],
    tokens: int,
    numbers: int,
) -> None:
    """Its first digit only: of the whole number the model repeats none after some 100 tokens."""
    dice = random.Random(tokens)
    put = chat.asking(server, timeout_s=120, kept=tmp_path / "reply.jsonl")
    for _ in range(numbers):
        words = filler(dice, tokens).split(" ")
        number = f"{dice.randrange(10000):04}"
        words.insert(dice.randrange(1, len(words)), f"The number is {number}.")
        parts = [question.text(" ".join(words)), question.text("What is the number?")]
        reply = put(question.body(parts, PARAMS, ""))
        assert reply.answer[:1] == number[0]
