"""The verdicts on a video question: was the whole video sent, and is the answer one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from keyelab.checks import Check, check
from keyelab.facts import FileFact, FrameFact, VideoFacts
from keyelab.files import sha256_file, shown
from keyelab.params import VideoTest
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame, coverage
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick

_LEAST_COVERAGE = 0.9


def sample_checks(info: VideoInfo, picks: Sequence[Pick], frames: Sequence[Frame]) -> list[Check]:
    """Whether the frames stand for the whole video."""
    share = coverage(info, len(picks), frames)
    held, stated = info.duration_s, info.stated_duration_s
    checks = [
        check(
            "coverage of the video",
            None if share is None else share >= _LEAST_COVERAGE,
            expected=f"at least {_LEAST_COVERAGE:.0%} of its duration",
            found="frame times unknown, taken by count" if share is None else f"{share:.0%}",
            remedy="raise video_test.max_frames",
        ),
        check(
            "frames sent",
            len(frames) == len(picks),
            expected=f"{len(picks)} of the {info.frames} in the file",
            found=f"{len(frames)}",
            remedy="some frames stand still or cannot be decoded: the table shows which are there",
            warn=True,
        ),
    ]
    if held and stated:
        whole = check(
            "video is whole",
            held >= _LEAST_COVERAGE * stated,
            expected=f"{stated:.2f} s, as the file states",
            found=f"{held:.2f} s",
            remedy="the file is cut, or its sound is longer than its pictures: copy it again",
            warn=True,
        )
        checks.append(whole)
    return checks


def answer_checks(reply: Reply, *, expect: str, max_tokens: int) -> list[Check]:
    """Whether there is a whole answer with the expected words in it."""
    answer = " ".join(reply.answer.split())
    thought = "no text at all"
    if length := len(reply.reasoning.strip()):
        thought = f"no final answer, {length} characters of reasoning only"
    checks = [
        check(
            "answer",
            bool(answer),
            expected="text",
            found=answer[:160] or thought,
            remedy=f"the reasoning took all tokens: raise video_test.max_tokens above {max_tokens}"
            if reply.finish_reason == "length"
            else "look at the frames and at the server's log",
        ),
        check(
            "finish reason",
            reply.finish_reason == "stop",
            expected="stop",
            found=str(reply.finish_reason),
            remedy=f"the answer was cut: raise video_test.max_tokens above {max_tokens}",
        ),
    ]
    if expect:
        words = check(
            "expected words",
            expect.casefold() in reply.answer.casefold(),
            expected=f"an answer with {expect!r}",
            found=answer[:160] or thought,
            remedy="look at the contact sheet: does the clip show it? "
            "Then suspect frame order, colour order, frame size and the chat template",
        )
        checks.append(words)
    return checks


def vision_check(frames: Sequence[Frame], prompt_tokens: int | None) -> Check:
    """Whether the prompt is long enough to hold every frame.

    A native-resolution projector makes one token of a square of 28 (Keye, Qwen2.5-VL) or 32
    (Qwen3-VL) px, so that the larger square gives the fewest tokens. Frames merged in pairs, as
    llama.cpp b9631 to b10502 does without text between them, fall below. The text counts in favour.
    """
    width, height = frames[0].width, frames[0].height
    fewest = max(8, (width // 32) * (height // 32)) * len(frames)
    return check(
        "every frame is in the prompt",
        None if prompt_tokens is None else prompt_tokens >= fewest,
        expected=f"at least {fewest} tokens for {len(frames)} frames of {width} × {height} px",
        found="unknown" if prompt_tokens is None else f"{prompt_tokens}",
        remedy="frames were merged: set video_test.frame_text; "
        "or the server shrinks them: see --image-max-tokens",
        warn=True,
    )


def rows(reply: Reply) -> list[dict[str, Any]]:
    """What the question cost, as the client and the server measured it."""
    usage, timings = reply.usage, reply.timings
    measures = {
        "first text after (s)": reply.ttft_s and round(reply.ttft_s, 3),
        "whole answer after (s)": round(reply.total_s, 3),
        "prompt (tokens)": usage.get("prompt_tokens"),
        "of that, from the prompt cache": timings.get("cache_n"),
        "answer (tokens)": usage.get("completion_tokens"),
        "server: prompt (ms)": timings.get("prompt_ms"),
        "server: answer (ms)": timings.get("predicted_ms"),
        "finish reason": reply.finish_reason,
    }
    return [{"measure": name, "value": value} for name, value in measures.items()]


def facts(
    info: VideoInfo, picks: Sequence[Pick], frames: Sequence[Frame], params: VideoTest, reply: Reply
) -> VideoFacts:
    """What is kept of the question and its answer."""
    return VideoFacts(
        video=FileFact(
            path=shown(info.path),
            sha256=sha256_file(info.path),
            size_bytes=info.path.stat().st_size,
        ),
        duration_s=info.duration_s,
        frames=[
            FrameFact(
                index=frame.pick.index,
                requested_s=frame.pick.requested_s,
                time_s=frame.pick.time_s,
                jpeg_bytes=len(frame.jpeg),
            )
            for frame in frames
        ],
        coverage=coverage(info, len(picks), frames),
        prompt=params.prompt,
        expected=params.expect,
        **dataclasses.asdict(reply),
    )
