"""The verdicts on a video question: was the whole video sent, and is the answer one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyelab.checks import Check, check
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Plan
from keyelab.video.tokens import plausible

_LEAST_COVERAGE = 0.9


def sample_checks(
    info: VideoInfo, wanted: Plan, frames: Sequence[Frame], share: float | None
) -> list[Check]:
    """Whether the frames stand for the whole video."""
    held, stated = info.duration_s, info.stated_duration_s
    cut = held is not None and stated is not None and held < _LEAST_COVERAGE * stated
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
            len(frames) == wanted.count,
            expected=f"{wanted.count} of the {info.frames} in the file",
            found=f"{len(frames)}",
            remedy="some frames stand still or cannot be decoded: the table shows which are there",
            warn=True,
        ),
    ]
    if cut:
        checks.append(
            check(
                "video is whole",
                False,
                expected=f"{stated:.2f} s, as the file states",
                found=f"{held:.2f} s",
                remedy="the file is cut, or its sound is longer than its pictures: copy it again",
                warn=True,
            )
        )
    return checks


def answer_checks(reply: Reply, *, expect: str, max_tokens: int) -> list[Check]:
    """Whether there is a whole answer with the expected words in it."""
    spent = reply.usage.get("completion_tokens", max_tokens)
    starved = not reply.answer.strip() and bool(reply.reasoning.strip())
    checks = [
        check(
            "answer",
            bool(reply.answer.strip()),
            expected="text",
            found=_empty(reply, spent) if not reply.answer.strip() else _short(reply.answer),
            remedy=f"raise video_test.max_tokens above {spent}"
            if starved
            else "read the raw response in the run's logs/",
        ),
        check(
            "finish reason",
            reply.finish_reason == "stop" if reply.finish_reason else None,
            expected="stop",
            found=reply.finish_reason or "unknown",
            remedy=f"the answer was cut: raise video_test.max_tokens above {spent}",
        ),
    ]
    if expect:
        checks.append(
            check(
                "expected words",
                expect.casefold() in reply.answer.casefold(),
                expected=f"an answer with {expect!r}",
                found=_short(reply.answer) or "no answer",
                remedy="look at the contact sheet: does the clip show it? "
                "Then suspect frame order, colour order, frame size and the chat template",
            )
        )
    return checks


def vision_check(frames: Sequence[Frame], per_frame: float | None) -> Check:
    """Whether the prompt grew by what the frames must cost."""
    fewest, most = plausible(frames)
    return check(
        "vision tokens a frame",
        None if per_frame is None else fewest <= per_frame <= most,
        expected=f"{fewest} to {most} for {frames[0].width} × {frames[0].height} px",
        found="unknown" if per_frame is None else f"{per_frame:.1f}",
        remedy="too few: frames were merged or dropped, set video_test.frame_text; "
        "otherwise the projector resizes, see --image-max-tokens",
        warn=True,
    )


def rows(reply: Reply, per_frame: float | None) -> list[dict[str, Any]]:
    """What the question cost, as the client and the server measured it."""
    usage, timings = reply.usage, reply.timings
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    measures = {
        "first text after (s)": None if reply.ttft_s is None else f"{reply.ttft_s:.3f}",
        "whole answer after (s)": f"{reply.total_s:.3f}",
        "prompt (tokens)": usage.get("prompt_tokens"),
        "of that, from the prompt cache": cached,
        "vision tokens a frame": per_frame,
        "answer (tokens)": usage.get("completion_tokens"),
        "server: prompt (ms)": timings.get("prompt_ms"),
        "server: answer (ms)": timings.get("predicted_ms"),
        "finish reason": reply.finish_reason,
    }
    return [{"measure": name, "value": value} for name, value in measures.items()]


def answer_facts(reply: Reply) -> dict[str, Any]:
    """What VideoFacts keeps of the reply."""
    return {
        "answer": reply.answer,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "ttft_s": reply.ttft_s,
        "total_s": reply.total_s,
        "usage": reply.usage,
        "timings": reply.timings,
    }


def _empty(reply: Reply, spent: int) -> str:
    if not reply.reasoning.strip():
        return "no text at all"
    if reply.finish_reason == "length":
        return f"no final answer: token limit used up by reasoning ({spent})"
    return f"no final answer, only reasoning ({spent} tokens)"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:157] + "…"
