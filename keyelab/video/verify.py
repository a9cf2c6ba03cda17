"""The verdicts on a video question: was the whole video sent, did it arrive, is the answer one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from keyelab.checks import Check, check
from keyelab.video.budget import Budget
from keyelab.video.chat import Reply
from keyelab.video.frame import Frame
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Sampling

_LEAST_COVERAGE = 0.9
# Chinese has no spaces between words
_WHOLE = r"(?:(?<![a-z0-9])|(?![a-z0-9])){}(?:(?<![a-z0-9])|(?:e?s)?(?![a-z0-9]))"


def sample_checks(info: VideoInfo, sampling: Sampling) -> list[Check]:
    """Whether the frames stand for the whole video."""
    share, gap_s = sampling.coverage, sampling.largest_gap_s
    held, stated = info.duration_s, info.stated_duration_s
    checks = [
        check(
            "coverage of the video",
            None if share is None else share >= _LEAST_COVERAGE,
            expected=f"at least {_LEAST_COVERAGE:.0%} of its duration",
            found="frame times unknown, taken by count"
            if share is None
            else f"{share:.0%}" + (f", largest gap {gap_s:.2f} s" if gap_s is not None else ""),
            remedy="raise video_test.max_frames",
        ),
        check(
            "frames sent",
            sampling.sent == sampling.asked,
            expected=f"{sampling.asked} of the {info.frames} in the file",
            found=f"{sampling.sent}: {sampling.chosen} different ones, "
            f"{sampling.decodable} of them can be decoded",
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


def answer_checks(reply: Reply, *, max_tokens: int, number: int = 1) -> list[Check]:
    """Whether there is a whole answer to question `number`."""
    answer = " ".join(reply.answer.split())
    nothing = reply.error.message if reply.error else "no text at all"
    if length := len(reply.reasoning.strip()):
        nothing = f"no final answer, {length} characters of reasoning only"
    used = reply.usage.get("completion_tokens")
    longer = f"raise video_test.max_tokens above {max_tokens}"
    if used and used < max_tokens:
        longer = f"the slot's context was full after {used} tokens: raise serve.context_tokens"
    remedy = "look at the frames and at the server's log"
    if reply.finish_reason == "length":
        remedy = f"the reasoning took all tokens: {longer}"
    elif reply.error:
        remedy = reply.error.hint
    which = "" if number == 1 else f" {number}"
    checks = [
        check(
            f"answer{which}",
            bool(answer),
            expected="text",
            found=answer[:160] or nothing,
            remedy=remedy,
        )
    ]
    if not reply.error:
        whole = check(
            f"finish reason{which}",
            reply.finish_reason == "stop",
            expected="stop",
            found=str(reply.finish_reason),
            remedy=f"the answer was cut: {longer}",
        )
        checks.append(whole)
    return checks


def fact_checks(answer: str, expect: Sequence[str]) -> list[Check]:
    """One check for each expected fact."""
    shown = " ".join(answer.split())[:160] or "no answer"
    return [
        check(
            f"says {fact!r}",
            says(answer, fact),
            expected=f"an answer with {fact!r}",
            found=shown,
            remedy="look at the contact sheet: does the clip show it? "
            "Then suspect frame order, colour order, frame size and the chat template",
        )
        for fact in expect
    ]


def says(answer: str, fact: str) -> bool:
    """Whether an answer holds a fact, or one of its alternatives ('red|红'), in any case.

    Latin words must be whole, or a plural: 'red' is not in 'centered'. A fact without words is in
    no answer.
    """
    words = [re.escape(" ".join(word.split()).casefold()) for word in fact.split("|")]
    text = " ".join(answer.split()).casefold()
    return any(word and re.search(_WHOLE.format(word), text) for word in words)


def arrival_check(
    frames: Sequence[Frame], asked: int, budget: Budget, replies: Sequence[Reply]
) -> Check:
    """Whether the prompt has the tokens of all frames, against the cost of one frame.

    `asked` is the number of frames whose labels the budget counts. Frames merged in pairs, as
    llama.cpp b9631 to b10502 does without text between them, halve the prompt.
    """
    got = max((reply.prompt_tokens or 0 for reply in replies), default=0)
    alike = len({(frame.width, frame.height) for frame in frames}) == 1
    expected = budget.prompt_tokens(len(frames))
    slack = budget.text_tokens * (1 - len(frames) / asked) + budget.frame_tokens / 2
    whole = expected - got <= slack
    missing = round((expected - got) / budget.frame_tokens)
    return check(
        "every frame is in the prompt",
        whole if got and alike and budget.measured else None,
        expected=f"{expected:,} tokens: {len(frames)} frames × {budget.frame_tokens:,} and "
        f"{budget.text_tokens:,} of text",
        found=(f"{got:,} tokens" + ("" if whole else f", {missing} frames short"))
        if got
        else "unknown",
        remedy="frames were merged: set video_test.frame_text; "
        "or the server dropped or shrank them: see its log and --image-max-tokens",
        warn=True,
    )


def rows(reply: Reply) -> list[dict[str, Any]]:
    """What the question cost, as the client and the server measured it."""
    timings = reply.timings
    measures = {
        "first text after (s)": reply.ttft_s and round(reply.ttft_s, 3),
        "whole answer after (s)": round(reply.total_s, 3),
        "prompt (tokens)": reply.prompt_tokens,
        "of that, from the prompt cache": reply.cached_tokens,
        "answer (tokens)": reply.usage.get("completion_tokens"),
        "server: prompt (ms)": timings.get("prompt_ms"),
        "server: answer (ms)": timings.get("predicted_ms"),
        "finish reason": reply.finish_reason,
    }
    return [{"measure": name, "value": value} for name, value in measures.items()]


def question_rows(prompts: Sequence[str], replies: Sequence[Reply]) -> list[dict[str, Any]]:
    """A row a question: what the prompt cache spared, against the first one's first text."""
    first = replies[0].ttft_s
    return [
        {
            "question": prompt,
            "prompt (tokens)": reply.prompt_tokens,
            "cached (tokens)": reply.cached_tokens,
            "first text after (s)": reply.ttft_s and round(reply.ttft_s, 3),
            "saved (s)": None
            if number == 0 or first is None or reply.ttft_s is None
            else round(first - reply.ttft_s, 3),
            "answer": " ".join(reply.answer.split())
            or (reply.error.message if reply.error else "no answer"),
        }
        for number, (prompt, reply) in enumerate(zip(prompts, replies, strict=True))
    ]
