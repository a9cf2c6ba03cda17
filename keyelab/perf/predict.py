"""How long a video request would take on a server whose log is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any

from keyelab.perf.explain import decode_line, decoded
from keyelab.perf.fit import fit, mean_total
from keyelab.perf.tables import Tables


@dataclass
class Prediction:
    """Seconds of each part and of the whole, each (value, low, high) of a 95 % interval.

    None is unknown, and the whole with it; `notes` say what a number leans on.
    """

    frames: int
    answer_tokens: int
    tokens_per_frame: float | None = None
    images_s: tuple[float, float | None, float | None] | None = None
    question_s: float | None = None
    decode_s: tuple[float, float | None, float | None] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def total_s(self) -> tuple[float, float | None, float | None] | None:
        """Both parts, their deviations taken as independent."""
        if self.images_s is None or self.decode_s is None:
            return None
        value = self.images_s[0] + self.decode_s[0] + (self.question_s or 0.0)
        ends = self.images_s[2], self.decode_s[2]
        if ends[0] is None or ends[1] is None:
            return value, None, None
        half = sqrt((ends[0] - self.images_s[0]) ** 2 + (ends[1] - self.decode_s[0]) ** 2)
        return value, max(0.0, value - half), value + half

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "total_s": self.total_s}


def predict(
    tables: Tables, frames: int, answer_tokens: int, question_tokens: int = 0
) -> Prediction:
    """Time of a request with so many frames, alone on the server of `tables` (one run's rows)."""
    told = Prediction(frames, answer_tokens)
    _images(tables, told)
    depth = frames * (told.tokens_per_frame or 0) + question_tokens
    _question(tables, told, question_tokens)
    if frames and told.tokens_per_frame is None:
        told.notes.append("tokens of a frame unknown: the depth of the answer too")
    else:
        _decode(tables, told, depth)
    return told


def _images(tables: Tables, told: Prediction) -> None:
    if not told.frames:
        told.images_s = (0.0, 0.0, 0.0)
        return
    chunks = tables.chunks[tables.chunks.images > 0].dropna(subset=["total_ms", "tokens"])
    if not len(chunks):
        told.notes.append("no image in the log has a known time: start the server with -lv 4")
        return
    each = chunks.images.astype(float)
    told.tokens_per_frame = float((chunks.tokens / each).median())
    ms = chunks.total_ms / each
    placed = chunks.depth_tokens.notna()
    line = fit(chunks.depth_tokens[placed], ms[placed])
    if line is None or line.slope_interval()[0] <= 0:  # depth makes no difference that is seen
        total = mean_total(ms, told.frames)
        told.images_s = (
            _seconds(total) if total else (told.frames * float(ms.mean()) / 1e3, None, None)
        )
        told.notes.append(f"images: mean of {len(chunks)} encodings, depth left out")
        return
    depths = [told.tokens_per_frame * (number + 1) for number in range(told.frames)]
    spread = line.residual * sqrt(told.frames * (1 + line.alike) / (1 - line.alike))
    told.images_s = _seconds(line.total(depths, spread))
    if depths[-1] > 1.1 * line.high_x:
        told.notes.append(f"images: nothing measured beyond {line.high_x:,.0f} tokens")


def _question(tables: Tables, told: Prediction, question_tokens: int) -> None:
    tasks = tables.tasks
    text = tasks[(tasks.images.fillna(0) == 0) & (tasks.prompt_tokens >= 32)].prefill_tps.dropna()
    if question_tokens and len(text):
        told.question_s = question_tokens / float(text.median())
    elif question_tokens:
        told.notes.append("no text prompt of 32 tokens or more in the log: question not counted")


def _decode(tables: Tables, told: Prediction, depth: float) -> None:
    steps = max(0, told.answer_tokens - 1)
    found = decode_line(tables)
    if found is None:
        tasks = decoded(tables)
        if not len(tasks):
            told.notes.append("no decode speed in the log")
            return
        ms = 1000 / tasks.decode_tps
        told.decode_s = (steps * float(ms.median()) / 1000, None, None)
        told.notes.append("decode: median of the tasks, depth left out, without an interval")
        return
    line, basis = found
    if basis == "windows":
        width = float(tables.samples.window_tokens.dropna().median())
        alike = (1 + line.alike) / (1 - line.alike)
        spread = line.residual * sqrt(steps * width * alike)
    else:
        spread = line.residual * steps
    told.decode_s = _seconds(line.total([depth + step for step in range(1, steps + 1)], spread))
    if depth + steps > 1.1 * line.high_x or depth < 0.9 * line.low_x:
        told.notes.append(
            f"decode: measured at {line.low_x:,.0f} to {line.high_x:,.0f} tokens of depth only"
        )


def _seconds(ms: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = (one / 1000 for one in ms)
    return value, max(0.0, low), high
