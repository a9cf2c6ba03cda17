"""Dialogues as token arrays: exactly the string that llama-server makes of a request.

Parts of a message follow each other without anything between; two texts are joined by a new
line. A picture is <|vision_start|>, its tokens, <|vision_end|>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from keyelab.models.demo.tokenizer import Tokenizer

Array = Any


@dataclass
class Writer:
    """One dialogue in the making: token ids, and where answers are."""

    tokenizer: Tokenizer
    picture_tokens: int
    ids: list[int] = field(default_factory=list)
    answers: list[tuple[int, int, str]] = field(default_factory=list)  # first, after the last, task

    def special(self, name: str) -> None:
        self.ids.append(self.tokenizer.ids[f"<|{name}|>"])

    def text(self, piece: str) -> None:
        self.ids.extend(self.tokenizer.encode(piece))

    def system(self, text: str) -> None:
        self._message("system", [text])

    def user(self, parts: Sequence[str | Sequence[int] | None]) -> None:
        """A message of the user: text, ready token ids, or None for a picture."""
        self._message("user", parts)

    def answer(self, text: str, task: str) -> None:
        """What the model is to say next, and the task it solves with it."""
        self.special("im_start")
        self.text("assistant\n")
        first = len(self.ids)
        self.text(text)
        self.special("im_end")
        self.answers.append((first, len(self.ids), task))
        self.text("\n")

    def _message(self, role: str, parts: Iterable[str | Sequence[int] | None]) -> None:
        self.special("im_start")
        waiting = f"{role}\n"
        after_text = False
        for part in parts:
            if isinstance(part, str):
                waiting += ("\n" if after_text else "") + part
                after_text = True
                continue
            self.text(waiting + "\n" * (after_text and part is not None))
            waiting, after_text = "", part is not None
            if part is None:
                self.special("vision_start")
                self.ids.extend([self.tokenizer.ids["<|image_pad|>"]] * self.picture_tokens)
                self.special("vision_end")
            else:
                self.ids.extend(part)
        self.text(waiting)
        self.special("im_end")
        self.text("\n")


@dataclass
class Group:
    """Dialogues of one form: arrays for one pass of the model."""

    tokens: Array  # B × L
    positions: Array  # 3 × B × L: time, row, column
    places: Array  # flat index of every picture token
    asked: Array  # flat index of every token whose successor is learned
    wanted: Array  # that successor
    answer: Array  # to which answer of the batch it belongs
    tasks: list[str]  # of each answer


def group(writers: Sequence[Writer], cells: tuple[int, int]) -> Group:
    """Pad at the end and number the positions; a picture has `cells` = (columns, rows) tokens.

    M-RoPE as llama.cpp and Hugging Face number it: a picture takes as many positions as its
    longer side has tokens, time stays, row and column count within it.
    """
    count = len(writers)
    longest = -(-max(len(one.ids) for one in writers) // 8) * 8
    names = writers[0].tokenizer.ids
    tokens = numpy.full((count, longest), names["<|endoftext|>"], numpy.int64)
    asked, wanted, answer = [], [], []
    tasks: list[str] = []
    for row, one in enumerate(writers):
        tokens[row, : len(one.ids)] = one.ids
        for first, end, task in one.answers:
            asked.append(numpy.arange(first - 1, end - 1) + row * longest)
            wanted.append(one.ids[first:end])
            answer.append(numpy.full(end - first, len(tasks)))
            tasks.append(task)
    return Group(
        tokens,
        _positions(tokens == names["<|image_pad|>"], cells),
        numpy.flatnonzero(tokens == names["<|image_pad|>"]),
        numpy.concatenate(asked),
        numpy.concatenate(wanted),
        numpy.concatenate(answer),
        tasks,
    )


def _positions(picture: Array, cells: tuple[int, int]) -> Array:
    wide, high = cells
    place = (picture.cumsum(1) - 1) % (wide * high)
    last = picture & (place == wide * high - 1)
    advance = numpy.where(picture, last * max(wide, high), 1)
    time = advance.cumsum(1) - advance
    row = time + picture * (place // wide)
    column = time + picture * (place % wide)
    return numpy.stack([time, row, column])
