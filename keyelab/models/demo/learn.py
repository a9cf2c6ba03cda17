"""One step of learning: what the model makes of a part, and how far that is from the truth."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from keyelab.models.demo import render
from keyelab.models.demo.data import Part
from keyelab.models.demo.model import Model

_BALANCE, _PLACE = 0.01, 4.0


@dataclass
class Tally:
    """Answers given and answers wholly right, by task; right means what greedy decoding says."""

    given: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    right: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, part: Part, best: Tensor) -> None:
        group = part.dialogues
        wrong = numpy.zeros(len(group.tasks), bool)
        wrong[group.answer[best.cpu().numpy() != group.wanted]] = True
        for task, missed in zip(group.tasks, wrong.tolist(), strict=True):
            name = f"{task}, {part.layout}" if part.clips else task
            self.given[name] += 1
            self.right[name] += not missed

    def shares(self) -> dict[str, float]:
        return {name: round(self.right[name] / self.given[name], 4) for name in sorted(self.given)}


def loss(
    model: Model, part: Part, device: Any, seen_weight: float, tally: Tally | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of one part, and its terms by name."""

    def sent(array: Any) -> Tensor:
        return torch.as_tensor(array, device=device)

    group = part.dialogues
    terms: dict[str, Tensor] = {}
    pictures = torch.zeros(0, 1, model.shape.language.width, device=device)
    if part.clips is not None:
        shown = blocks(part, device)
        pictures = model.vision(shown, corners=part.seed % 2 == 0)
        terms["seen"] = _seen(model, part, pictures, device) * seen_weight
    hidden = model.hidden(sent(group.tokens), sent(group.positions), pictures, sent(group.places))
    scores = model.language.logits(hidden.flatten(0, 1)[sent(group.asked)]).float()
    terms["answers"] = functional.cross_entropy(scores, sent(group.wanted))
    terms["balance"] = model.balance() * _BALANCE
    if tally is not None:
        tally.add(part, scores.argmax(-1))
    return torch.stack(list(terms.values())).sum(), terms


def blocks(part: Part, device: Any) -> Tensor:
    """The pictures of a part, N × (1 or 2) × 3 × height × width, in the order of the dialogues."""
    assert part.clips is not None
    # JPEG rounds: it needs the whole precision
    with torch.no_grad(), torch.autocast(device, enabled=False):
        frames = render.frames(part.clips, part.size, part.seed, device)
    if not part.fused:
        return frames.flatten(0, 1)[:, None]
    return frames[:, _pairs(frames.shape[1])].flatten(0, 1)


def _pairs(frames: int) -> list[list[int]]:
    """Frames two by two; the odd last one stands twice."""
    return [[one, min(one + 1, frames - 1)] for one in range(0, frames, 2)]


def _seen(model: Model, part: Part, pictures: Tensor, device: Any) -> Tensor:
    clips: Any = part.clips
    frames = clips.colour.shape[1]
    pairs = numpy.array(_pairs(frames) if part.fused else [[one, one] for one in range(frames)])
    colour, shape, place = model.guess(pictures)
    true_colour = torch.as_tensor(clips.colour[:, pairs], device=device).flatten()
    true_shape = torch.as_tensor(clips.shape, device=device)[:, None].expand(-1, pairs.size)
    true_place = torch.as_tensor(clips.xy / part.size, dtype=torch.float32, device=device)
    return (
        functional.cross_entropy(colour.flatten(0, 1), true_colour)
        + functional.cross_entropy(shape.flatten(0, 1), true_shape.flatten())
        + _PLACE * functional.l1_loss(place.flatten(), true_place[:, pairs].flatten())
    )
