"""What a second question about the same frames costs, against the first, with the real server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from llama import running

from keyelab.params import VideoTest
from keyelab.video import chat, frame, question
from keyelab.video.demo import Story, draw
from keyelab.video.sample import Pick

pytestmark = pytest.mark.bench
FRAMES = 128
ONE_THREAD = ("-np", "1", "-t", "1")  # several stall each other on a busy machine


def test_a_second_questions_first_text_comes_within_a_tenth_of_the_firsts_time(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    params = VideoTest(
        prompt="What happens in these pictures?", more_prompts=["What colour is it?"],
        frame_text="Frame {number}:", max_tokens=8,
    )  # fmt: skip
    ratios = []
    with running(tmp_path, ONE_THREAD) as server:
        put = chat.asking(server, timeout_s=60, kept=tmp_path / "reply.jsonl")
        put(question.body([question.text("warm up")], params, ""))
        for colour in ("red", "green", "blue"):  # other frames: nothing of them is cached
            pictures = [draw(Story(colour), i / (FRAMES - 1)) for i in range(FRAMES)]
            frames = [
                frame.encode(picture, Pick(None, i), i, 90) for i, picture in enumerate(pictures, 1)
            ]
            first, second = chat.ask_each(put, question.requests_for(frames, params, ""))
            assert first.ttft_s
            assert second.ttft_s
            assert (first.cached_tokens or 0) < 0.05 * (first.prompt_tokens or 0)
            ratios.append(second.ttft_s / first.ttft_s)
            print(first.prompt_tokens, second.cached_tokens, first.ttft_s, second.ttft_s)
    record_property("ratio", median(ratios))
    assert median(ratios) <= 0.1
