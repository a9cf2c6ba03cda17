"""The facts that a video question leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.facts import VideoFacts
from keyelab.params import VideoTest
from keyelab.video import outcome
from keyelab.video.budget import Budget
from keyelab.video.chat import Reply
from keyelab.video.frame import sampled
from keyelab.video.probe import VideoInfo, probe


def test_facts_hold_every_question_and_read_back(make_video: Any) -> None:
    info = probe(make_video(count=8))
    params = VideoTest(prompt="p", more_prompts=["q"], expect=["red"], max_frames=2)
    _, frames = sampled(info, params, tile_px=28)
    replies = [Reply(answer="red", finish_reason="stop"), Reply(error=KeyelabError("lost"))]
    budget = Budget(10, 54, 64, 4096, measured=True)
    facts = outcome.facts(info, frames, params, replies, coverage=0.9, budget=budget)
    assert (facts.prompt, facts.answer, facts.expected) == ("p", "red", ["red"])
    assert [(one.prompt, one.error) for one in facts.more] == [("q", "lost")]
    assert facts.tokens_per_frame == 10
    assert len(facts.frames) == 2
    assert VideoFacts.model_validate_json(facts.model_dump_json()) == facts


def test_what_was_computed_is_no_count_of_the_server(make_video: Any) -> None:
    budget = Budget(10, 54, 64, None, measured=False)
    info = probe(make_video(count=8))
    assert outcome.facts(info, [], VideoTest(), [Reply()], budget=budget).tokens_per_frame is None


def test_a_folder_of_pictures_has_the_digest_of_its_tree(tmp_path: Path) -> None:
    files = tuple(tmp_path / name for name in ("1.jpg", "2.jpg"))
    for file in files:
        file.write_bytes(file.name.encode())
    info = VideoInfo(tmp_path, "picture folder", "mjpeg", 1, 1, 2, (), 0.0, None, None, files=files)
    one = outcome.facts(info, [], VideoTest(), [Reply()]).video
    assert one.size_bytes == 10
    files[1].write_bytes(b"other")
    assert outcome.facts(info, [], VideoTest(), [Reply()]).video.sha256 != one.sha256
