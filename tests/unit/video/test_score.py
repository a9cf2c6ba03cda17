"""A folder of clips with their truth, asked about one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.facts import ClipFact
from keyelab.params import VideoTest
from keyelab.video import score
from keyelab.video.chat import Reply


@pytest.fixture
def folder(make_video: Any) -> Path:
    """Three clips and their truth."""
    truth: dict[str, Any] = {
        "a.mp4": {"expect": ["red|红", "circle"]},
        "b.mp4": {"expect": ["blue"], "prompt": "Which colour?"},
        "c d%.mp4": {"expect": ["green"]},
    }
    path = Path()
    for name in truth:
        path = make_video(name, count=8)
    (path.parent / "truth.json").write_text(json.dumps(truth, ensure_ascii=False))
    return path.parent


def told(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"][-1]["text"])


def test_each_clip_is_asked_its_question_and_held_against_its_truth(folder: Path) -> None:
    answers = {"What is it?": ["a 红 Circle", "a red circle"], "Which colour?": ["It is blue."]}

    def put(body: dict[str, Any]) -> Reply:
        return Reply(answer=answers[told(body)].pop(0), usage={"prompt_tokens": 9}, total_s=0.5)

    params = VideoTest(prompt="What is it?", max_frames=2, times_s=[99.0])
    results = score.score(score.clips(folder), put, params, tile_px=28)
    assert [(one.name, one.right) for one in results] == [
        ("a.mp4", True), ("b.mp4", True), ("c d%.mp4", False),
    ]  # fmt: skip
    first = score.rows(results)[0]
    assert first == {
        "clip": "a.mp4", "expected": "red|红, circle", "answer": "a 红 Circle", "right": True,
        "tokens": 9, "s": 0.5,
    }  # fmt: skip
    verdict = score.check_of(results, 1.0)
    assert (verdict.status, verdict.found) == ("failed", "2 of 3 right")
    assert "c d%.mp4" in verdict.remedy
    assert score.check_of(results, 0.6).status == "ok"


def test_exactly_the_least_share_is_enough() -> None:
    one = ClipFact(
        name="a", expected=["x"], right=True, prompt="", answer="", reasoning="",
        finish_reason=None, ttft_s=None, total_s=0, usage={}, timings={},
    )  # fmt: skip
    wrong = one.model_copy(update={"right": False})
    assert score.check_of([one] * 11 + [wrong] * 9, 0.55).status == "ok"


def test_a_clip_that_cannot_be_read_or_asked_does_not_end_the_others(folder: Path) -> None:
    (folder / "a.mp4").write_bytes(b"")

    def put(body: dict[str, Any]) -> Reply:
        if told(body) == "Which colour?":
            raise KeyelabError("the connection was lost")
        return Reply(answer="green")

    results = score.score(score.clips(folder), put, VideoTest(), tile_px=28)
    assert [one.right for one in results] == [None, None, True]
    assert "0 bytes" in results[0].error
    assert score.rows(results)[1]["answer"] == "the connection was lost"
    assert score.check_of(results, 0.5).status == "failed"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "found no file"),
        ("{", "expected JSON"),
        ('{"a.mp4": ["red"]}', "at a.mp4"),
        ('{"a.mp4": {"expect": []}}', "at a.mp4.expect"),
        ('{"a.mp4": {"expect": ["x"], "promt": "y"}}', "at a.mp4.promt"),
        ('{"gone.mp4": {"expect": ["x"]}}', "none called gone.mp4"),
        ("{}", "none called anything"),
    ],
)
def test_a_truth_that_cannot_be_used_is_one_sentence(
    folder: Path, content: str | None, said: str
) -> None:
    (folder / "truth.json").unlink()
    if content is not None:
        (folder / "truth.json").write_text(content)
    with pytest.raises(KeyelabError) as caught:
        score.clips(folder)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
