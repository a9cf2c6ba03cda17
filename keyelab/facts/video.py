"""Questions about a video and their answers: phase 07."""

from __future__ import annotations

from typing import Any

from keyelab.facts.base import Facts, FileFact


class FrameFact(Facts):
    """One frame sent: where it stands in the video (seconds; None unknown) and its JPEG size."""

    index: int
    requested_s: float | None
    time_s: float | None
    jpeg_bytes: int


class AnswerFact(Facts):
    """A question and what came back: text, clocks of the client (s), the server's own numbers.

    `error` says why there is no answer.
    """

    prompt: str
    answer: str
    reasoning: str
    finish_reason: str | None
    ttft_s: float | None
    total_s: float
    usage: dict[str, Any]
    timings: dict[str, Any]
    error: str = ""


class ClipFact(AnswerFact):
    """A clip of clips_dir: what its answer had to contain, and whether it did (None: no answer)."""

    name: str
    expected: list[str]
    right: bool | None


class VideoFacts(AnswerFact):
    """07_video_test: what was asked and answered; `more` are further questions on the same video.

    `mode` is frames or native; `tokens_per_frame` is the server's count, None when it was not
    asked.
    """

    video: FileFact
    duration_s: float | None
    mode: str
    frames: list[FrameFact]
    coverage: float | None
    tokens_per_frame: int | None
    expected: list[str]
    more: list[AnswerFact] = []
    clips: list[ClipFact] = []
