"""Both halves together, and what is learned beside the answers to see sooner."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from keyelab.models.demo import words
from keyelab.models.demo.language import Language, LanguageShape
from keyelab.models.demo.vision import Vision, VisionShape

_SEEN = (1, len(words.COLOURS), len(words.SHAPES), 2)  # weight, colour, shape, place


@dataclass(frozen=True)
class Shape:
    """Geometry of the model; kept in every checkpoint."""

    vision: VisionShape = field(default_factory=VisionShape)
    language: LanguageShape = field(default_factory=LanguageShape)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Shape:
        language = {**record["language"], "sections": tuple(record["language"]["sections"])}
        return cls(VisionShape(**record["vision"]), LanguageShape(**language))

    def record(self) -> dict[str, Any]:
        return asdict(self)


class Model(nn.Module):
    """Language and vision; `seen` guesses colour, shape and place from a picture's tokens."""

    def __init__(self, shape: Shape | None = None) -> None:
        super().__init__()
        self.shape = shape or Shape()
        self.language = Language(self.shape.language)
        self.vision = Vision(self.shape.vision, self.shape.language.width)
        self.seen = nn.Linear(self.shape.language.width, 2 * sum(_SEEN))

    def hidden(self, tokens: Tensor, positions: Tensor, pictures: Tensor, places: Tensor) -> Tensor:
        """Hidden states B × L × width; picture tokens go to the flat `places` of the batch."""
        x = self.language.token_embd(tokens)
        if len(places):
            seen = pictures.flatten(0, 1).to(x.dtype)
            x = x.flatten(0, 1).index_copy(0, places, seen).view_as(x)
        out: Tensor = self.language(x, positions)
        return out

    def guess(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Colour and shape scores and place (0 to 1), each N × 2 frames × …

        Every token says what it sees and how much that counts: so the tokens where the shape is
        learn to hold all that the language model has to know.
        """
        said = self.seen(pictures).float().unflatten(-1, (2, -1))
        weight, colour, form, place = said.split(list(_SEEN), -1)
        weight = weight.softmax(1)
        return (weight * colour).sum(1), (weight * form).sum(1), (weight * place).sum(1)

    def balance(self) -> Tensor:
        """Mean of the layers' balance losses of the last pass."""
        return torch.stack([layer.balance for layer in self.language.blk]).mean()
