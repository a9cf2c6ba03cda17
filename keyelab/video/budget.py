"""How many frames fit: tokens of a frame, of the text and of the answer against a slot's context.

The server is asked twice with every label and the question, without a frame and with one, and
max_tokens 1: the difference is what a frame costs there, however its projector counts. The frame
is not lost: the first question finds it in the prompt cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError, UsageError
from keyelab.params import VideoTest
from keyelab.video import question, tokens
from keyelab.video.chat import Put
from keyelab.video.frame import Frame
from keyelab.video.sample import Pick

_BYTES_A_TOKEN = 3  # of text, where nothing can be measured


@dataclass(frozen=True)
class Budget:
    """Tokens: of a frame, of all text, of the longest answer, of a slot (None is unknown).

    `measured` says that the server counted; otherwise they are computed.
    """

    frame_tokens: int
    text_tokens: int
    answer_tokens: int
    slot_tokens: int | None
    measured: bool

    def prompt_tokens(self, frames: int) -> int:
        """Tokens of the prompt with so many frames."""
        return frames * self.frame_tokens + self.text_tokens

    def most(self) -> int | None:
        """The most frames that fit; None where the slot's context is unknown."""
        if self.slot_tokens is None:
            return None
        free = self.slot_tokens - self.text_tokens - self.answer_tokens
        return max(0, free // self.frame_tokens)

    def sum(self, frames: int) -> str:
        """The arithmetic for so many frames, written out."""
        total = self.prompt_tokens(frames) + self.answer_tokens
        terms = (
            f"{frames} frames × {self.frame_tokens:,} + {self.text_tokens:,} text + "
            f"{self.answer_tokens:,} answer = {total:,}"
        )
        if self.slot_tokens is None:
            return f"{terms} tokens; the context of a slot is unknown"
        sign = "≤" if total <= self.slot_tokens else ">"
        return f"{terms} {sign} {self.slot_tokens:,} tokens a slot"


def measured(
    frame: Frame,
    picks: Sequence[Pick],
    params: VideoTest,
    slot_tokens: int | None,
    put: Put,
) -> Budget:
    """The budget for `picks` as the server counts it; `put` sends a request.

    Raises KeyelabError when the answers do not say how long the prompts were.
    """
    short = params.model_copy(update={"max_tokens": 1})
    labels = question.texts(picks, params.frame_text)
    ask = question.text(_longest(params))
    counts = []
    for frames in ([], [question.image(frame)]):
        reply = put(question.body([*labels[:1], *frames, *labels[1:], ask], short, ""))
        counts.append(reply.usage.get("prompt_tokens"))
    without, with_one = counts
    if not without or not with_one or with_one <= without:
        raise KeyelabError(
            f"expected the tokens of a prompt without a frame and of one with, found {counts}",
            "does the server see pictures? keyelab run --from serve shows what it was asked",
        )
    return Budget(with_one - without, without, params.max_tokens, slot_tokens, True)


def computed(
    frame: Frame, picks: Sequence[Pick], params: VideoTest, slot_tokens: int | None, tile_px: int
) -> Budget:
    """The budget where no server can be asked: Qwen-VL's rule for pictures, text by its bytes."""
    words = [part["text"] for part in question.texts(picks, params.frame_text)]
    length = len("".join([*words, _longest(params)]).encode())
    cost = tokens.of(frame.width, frame.height, tile_px) + tokens.MARKS
    text_tokens = length // _BYTES_A_TOKEN + 1
    return Budget(cost, text_tokens, params.max_tokens, slot_tokens, False)


def frames_to_send(budget: Budget, asked: int, params: VideoTest) -> int:
    """`asked`, or as many as fit. Raises UsageError, with the arithmetic, when none or too few fit.

    Frames at given times are never thinned out.
    """
    most = budget.most()
    if most is None or most >= asked:
        return asked
    if most and not params.times_s:
        return most
    need = budget.prompt_tokens(asked) + params.max_tokens
    raise UsageError(
        f"expected frames, text and answer to fit into a slot, found {budget.sum(asked)}",
        f"serve.context_tokens={need} a slot, or lower video_test.max_tokens "
        f"({params.max_tokens:,}), the frames' number or frame_max_tokens",
    )


def rows(budget: Budget, asked: int, sent: int) -> list[dict[str, Any]]:
    """The budget as table rows."""
    how = "measured" if budget.measured else "computed"
    facts = {
        f"a frame (tokens, {how})": budget.frame_tokens,
        f"labels and question (tokens, {how})": budget.text_tokens,
        "answer at most (tokens)": budget.answer_tokens,
        "a slot (tokens)": budget.slot_tokens,
        "frames that fit": budget.most(),
        "frames asked for": asked,
        "frames sent": sent,
        "sum": budget.sum(sent),
    }
    return [{"fact": name, "value": value} for name, value in facts.items()]


def check_of(budget: Budget, asked: int, sent: int) -> Check:
    """Whether the context holds all the frames that were asked for."""
    return check(
        "context holds the frames",
        None if budget.slot_tokens is None else sent >= asked,
        expected=f"{asked} frames",
        found=budget.sum(asked),
        remedy=f"{sent} are sent. For more: a larger serve.context_tokens, or lower "
        "video_test.max_tokens, frame_max_tokens or frame_size_px",
        warn=True,
    )


def _longest(params: VideoTest) -> str:
    return max([params.prompt, *params.more_prompts], key=lambda words: len(words.encode()))
