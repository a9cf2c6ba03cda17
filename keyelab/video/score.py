"""A folder of clips with their truth: each is asked about, and right answers are counted.

truth.json beside the clips: {"name.mp4": {"expect": ["red|红", "circle"], "prompt": "What …?"}};
without a prompt the question is video_test.prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.facts import ClipFact
from keyelab.files import read_json, shown
from keyelab.params import VideoTest
from keyelab.video import frame, outcome, question, verify
from keyelab.video.chat import Put, Reply
from keyelab.video.probe import probe


class Truth(BaseModel):
    """What the answer about a clip must contain."""

    model_config = ConfigDict(extra="forbid")

    expect: list[str] = Field(min_length=1)
    prompt: str = ""


@dataclass(frozen=True)
class Clip:
    """A clip and its truth."""

    path: Path
    truth: Truth


def clips(folder: Path) -> list[Clip]:
    """The clips that truth.json names.

    Raises KeyelabError: no truth.json, one of another form, a clip that is not there.
    """
    path = folder / "truth.json"
    if not path.is_file():
        raise KeyelabError(
            f"expected {shown(path)} with what each clip shows, found no file",
            'write it: {"name.mp4": {"expect": ["red|红", "circle"]}}',
        )
    try:
        truths = TypeAdapter(dict[str, Truth]).validate_python(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise KeyelabError(
            f"{shown(path)}: expected clips with a list expect, found at "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            'example: {"name.mp4": {"expect": ["red|红", "circle"], "prompt": "What moves?"}}',
        ) from None
    missing = [name for name in truths if not (folder / name).is_file()]
    if missing or not truths:
        raise KeyelabError(
            f"{shown(path)}: expected clips that are there, found none called "
            f"{', '.join(missing) or 'anything'}",
            f"ls {shown(folder)}",
        )
    return [Clip(folder / name, truth) for name, truth in truths.items()]


def score(
    found: Sequence[Clip],
    put: Put,
    params: VideoTest,
    *,
    tile_px: int,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> list[ClipFact]:
    """Ask about each clip as about the video itself; what goes wrong with one does not end it."""
    results = []
    for number, clip in enumerate(found):
        on_progress(number / len(found), clip.path.name)
        prompt = clip.truth.prompt or params.prompt
        try:
            reply = put(_request(clip.path, params, prompt, tile_px))
        except KeyelabError as error:
            reply = Reply(error=error)
        right = all([verify.says(reply.answer, fact) for fact in clip.truth.expect])
        results.append(
            ClipFact(
                name=clip.path.name,
                expected=clip.truth.expect,
                right=None if reply.error else right,
                **outcome.answer(prompt, reply),
            )
        )
    return results


def rows(results: Sequence[ClipFact]) -> list[dict[str, Any]]:
    """The scored clips as table rows."""
    return [
        {
            "clip": result.name,
            "expected": ", ".join(result.expected),
            "answer": " ".join(result.answer.split()) or result.error or "no answer",
            "right": result.right,
            "tokens": result.usage.get("prompt_tokens"),
            "s": result.total_s,
        }
        for result in results
    ]


def check_of(results: Sequence[ClipFact], least: float) -> Check:
    """Whether enough clips were answered right; one without an answer is not right."""
    right = sum(bool(result.right) for result in results)
    wrong = [result.name for result in results if not result.right]
    return check(
        "score over the clips",
        right / len(results) >= least,
        expected=f"at least {least:.0%} of {len(results)} right",
        found=f"{right} of {len(results)} right",
        remedy=f"look at the table: {', '.join(wrong[:5])}",
    )


def _request(path: Path, params: VideoTest, prompt: str, tile_px: int) -> dict[str, Any]:
    own = params.model_copy(update={"times_s": []})
    _, frames = frame.sampled(probe(path), own, tile_px=tile_px)
    return question.request(frames, params, "", prompt)
