"""The training data of a step: groups of dialogues about clips, and some without any.

A step is drawn from its number and the seed alone, so a run continues after an interruption
with the data it would have had.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy

from keyelab.models.demo import story, words
from keyelab.models.demo.dialogue import Group, Writer, group
from keyelab.models.demo.story import Stories
from keyelab.models.demo.tokenizer import Tokenizer

Rng = Any
CELL_PX = 32
_NATIVE = (3, 3)  # 96 × 96 px
# what llama.cpp makes of 128 to 224 px, 4:3, 16:9 and upright pictures
_CELLS = (
    (4, 4), (5, 5), (6, 6), (7, 7), (4, 3), (3, 4), (5, 4), (4, 5), (6, 5), (7, 5), (5, 3), (3, 5),
    (6, 3), (6, 4), (7, 4), (4, 7),
)  # fmt: skip
_TASKS = ("caption", "colour", "shape", "motion", "count", "refusal")
_FIRST, _LATER = (0.55, 0.12, 0.08, 0.13, 0.07, 0.05), (0.1, 0.2, 0.15, 0.2, 0.2, 0.15)


@dataclass
class Part:
    """One pass: dialogues, and the clips that are seen in them (None: text only)."""

    dialogues: Group
    clips: Stories | None
    size: tuple[int, int]  # px
    layout: str  # labels, plain, fused: two frames are one picture (llama.cpp b9631 to b10502)
    seed: int

    @property
    def fused(self) -> bool:
        return self.layout == "fused"


@dataclass(frozen=True)
class Steps:
    """The steps of a run as a dataset: the item with number n is a list of parts.

    `tokens`: language tokens in a part, about; `most_frames`: in a clip; `longest`: context that
    is trained, in tokens (at least 512).
    """

    tokenizer: Tokenizer
    seed: int
    tokens: int
    parts: int = 3
    most_frames: int = 16
    longest: int = 8192
    native_share: float = 0.55
    fixed: dict[str, Any] = field(default_factory=dict)  # for tests and for measuring

    def __getitem__(self, step: int) -> list[Part]:
        return [self.part(step, number) for number in range(self.parts)]

    def part(self, step: int, number: int) -> Part:
        seed = zlib.crc32(f"{self.seed} {step} {number}".encode())
        rng = numpy.random.default_rng(seed)
        kind = self.fixed.get("kind") or rng.choice(
            ["clips", "text", "deep", "deep clips"], p=[0.82, 0.06, 0.05, 0.07]
        )
        if kind in ("text", "deep"):
            return self._text(rng, kind == "deep", seed)
        return self._clips(rng, kind == "deep clips", seed)

    def _clips(self, rng: Rng, deep: bool, seed: int) -> Part:
        most = min(self.most_frames, 8) if deep else self.most_frames
        frames = self.fixed.get("frames") or _frames(rng, most)
        layout = self.fixed.get("layout") or str(
            rng.choice(["labels", "plain", "fused"], p=[0.5, 0.25, 0.25])
        )
        native = deep or rng.random() < self.native_share
        cells = self.fixed.get("cells") or (
            _NATIVE if native else _CELLS[rng.integers(len(_CELLS))]
        )
        size = (cells[0] * CELL_PX, cells[1] * CELL_PX)
        fused = layout == "fused"
        pictures = -(-frames // 2) if fused else frames
        length = pictures * (cells[0] * cells[1] + (11 if layout == "labels" else 2)) + 70
        filler = int(2 ** rng.uniform(7, numpy.log2(self._deepest() - length))) if deep else 0
        count = self._count(length + filler, cells[0] * cells[1] * pictures)
        clips = story.draw(rng, count, frames, size, fused)
        write = _About(rng, self.tokenizer, cells, pictures, layout, filler)
        return Part(group([write(one) for one in clips.truth], cells), clips, size, layout, seed)

    def _text(self, rng: Rng, deep: bool, seed: int) -> Part:
        filler = int(2 ** rng.uniform(6, numpy.log2(self._deepest() - 320))) if deep else 0
        count = self._count(filler + (160 if deep else 90), 0)
        writers = []
        for _ in range(count):
            writer = Writer(self.tokenizer, 0)
            _system(rng, writer)
            self._turns(rng, writer, filler)
            writers.append(writer)
        return Part(group(writers, (1, 1)), None, (0, 0), "text", seed)

    def _turns(self, rng: Rng, writer: Writer, filler: int) -> None:
        """Without a picture: honest answers, counting, a number found again in a long text."""
        kinds = ["number", "count"] if filler else ["nothing", "number", "count"]
        for turn in range(rng.integers(1, 3)):
            kind = rng.choice(kinds)
            depth = filler if not turn else 0
            if kind == "number":
                number = str(rng.integers(0, 10000)).zfill(4)
                told, asked = f"The number is {number}.", _pick(rng, words.NUMBER)
                text = _filler(rng, self.tokenizer, depth, f" {told}") if depth else told
                writer.user([text, asked])
                writer.answer(number, "number")
            elif kind == "count":
                first = int(rng.integers(0, 100))
                last = first + int(rng.integers(1, 33))
                asked = _pick(rng, words.COUNT_ON).format(first=first, last=last)
                writer.user([_filler(rng, self.tokenizer, depth), asked] if depth else [asked])
                writer.answer(", ".join(map(str, range(first, last + 1))), "count on")
            else:
                writer.user([_question(rng, _any_question(rng))])
                writer.answer(words.NO_VIDEO, "no video")

    def _deepest(self) -> int:
        return max(512, min(self.longest, self.tokens))

    def _count(self, length: int, picture_tokens: int) -> int:
        """How many dialogues fill a part; pictures cost four patches a token besides."""
        return max(2, min(1024, int(self.tokens / (length + picture_tokens))))


@dataclass
class _About:
    """Writes the dialogue about one clip; the form is that of the whole part."""

    rng: Rng
    tokenizer: Tokenizer
    cells: tuple[int, int]
    pictures: int
    layout: str
    filler: int

    def __call__(self, truth: dict[str, str]) -> Writer:
        rng = self.rng
        writer = Writer(self.tokenizer, self.cells[0] * self.cells[1])
        _system(rng, writer)
        parts: list[Any] = [_filler(rng, self.tokenizer, self.filler)] if self.filler else []
        label = _pick(rng, words.LABELS) if self.layout == "labels" else ""
        step_s = rng.choice([0.5, 1.0, rng.uniform(0.1, 4)])
        start_s = rng.choice([0.0, step_s / 2])
        first = int(rng.random() < 0.9)
        for number in range(self.pictures):
            if label:
                time_s = start_s + number * step_s
                parts.append(label.format(number=number + first, time_s=time_s))
            parts.append(None)
        turns = 2 + int(rng.integers(0, 12)) * bool(self.filler)
        questions = [self._asked(truth, one) for one in range(turns)]
        asked, answer, task = questions[0]
        writer.user([asked, *parts] if rng.random() < 0.12 else [*parts, asked])
        writer.answer(answer, task)
        for asked, answer, task in questions[1:]:
            writer.user([asked])
            writer.answer(answer, task)
        return writer

    def _asked(self, truth: dict[str, str], turn: int) -> tuple[str, str, str]:
        rng = self.rng
        task = str(rng.choice(_TASKS, p=_LATER if turn else _FIRST))
        motion, then = truth["motion"], truth["then"]
        choices: dict[str, tuple[Any, Callable[[], str]]] = {
            "caption": (words.CAPTION, lambda: words.caption(**truth)),
            "colour": (words.COLOUR, lambda: words.colour_answer(truth["colour"], then)),
            "shape": (words.SHAPE, lambda: truth["shape"]),
            "motion": (words.MOTION, lambda: words.motion_answer(motion, then)),
            "count": (words.COUNT, lambda: str(self.pictures)),
            "refusal": ((_strange(rng),), lambda: words.REFUSAL),
        }
        asked, answer = choices[task]
        return _question(rng, _pick(rng, asked)), answer(), task


def _pick(rng: Rng, some: Any) -> str:
    return str(some[rng.integers(len(some))])


def _frames(rng: Rng, most: int) -> int:
    if rng.random() < 0.1:
        return int(rng.integers(1, 3))
    return int(rng.integers(min(3, most), most + 1))


def _system(rng: Rng, writer: Writer) -> None:
    if rng.random() < 0.15:
        writer.system(_pick(rng, words.SYSTEM))


def _any_question(rng: Rng) -> str:
    kinds = (words.CAPTION, words.COLOUR, words.SHAPE, words.MOTION, words.COUNT, (_strange(rng),))
    return _pick(rng, kinds[rng.integers(len(kinds))])


def _strange(rng: Rng) -> str:
    """A question that is not about the clip: a known one, or words at random."""
    if rng.random() < 0.7:
        return _pick(rng, words.OFF_TOPIC)
    some = [_pick(rng, words.FILLER) for _ in range(rng.integers(1, 8))]
    opening = _pick(rng, ("", "Who is", "Where", "Why", "When", "Can you", "Tell me", "How"))
    return f"{opening} {' '.join(some)}?".strip()


def _question(rng: Rng, text: str) -> str:
    """A question as different people type it."""
    if rng.random() < 0.12:
        text = text.lower()
    if rng.random() < 0.12:
        text = text.rstrip("?.。？")
    return text


def _filler(rng: Rng, tokenizer: Tokenizer, tokens: int, told: str = "") -> list[int]:
    """About so many tokens of text without a meaning, `told` somewhere in it.

    Every piece begins with a space and none ends the text with a full stop, so that the pieces
    one by one encode as the whole text does.
    """
    known = len(words.FILLER)
    pieces: list[tuple[int, ...]] = []
    length = 0
    for one in rng.integers(0, known + 12, tokens).tolist():
        if length >= tokens:
            break
        text = f" {rng.integers(0, 1000)}" if one >= known + 8 else " " + words.FILLER[one % known]
        pieces.append(tokenizer.encode(text + "." * (known <= one < known + 8)))
        length += len(pieces[-1])
    if told:
        pieces.insert(int(rng.integers(0, len(pieces))), tokenizer.encode(told))
    pieces.append(tokenizer.encode(" " + words.FILLER[0]))
    return [one for piece in pieces for one in piece]
