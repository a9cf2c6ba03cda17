"""The demo model's tokenizer: byte-level BPE with the pre-tokenizer that llama.cpp calls qwen2.

Trained on the model's own sentences, so that an answer has about 6 tokens; every other text
still encodes, byte by byte. There is no Unicode normalization: llama.cpp has none either.
"""

from __future__ import annotations

import itertools
import json
import os
from functools import lru_cache
from typing import Any

from keyelab.models.demo import words

SIZE = 640
SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# the regular expression of Qwen2's tokenizer.json
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# plain ChatML; pictures stand where llama-server and Qwen's own template put them
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}"
    "{%- if part.type == 'image' or part.type == 'image_url' %}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif part.text is defined %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


class Tokenizer:
    """Text to token ids (list of int) and back; made by `build`."""

    def __init__(self, text: str) -> None:
        """`text`: the JSON of a Hugging Face `tokenizer.json`."""
        from tokenizers import Tokenizer as Library

        self.text = text
        self._library = Library.from_str(text)
        self.encode = lru_cache(maxsize=200_000)(self._encode)
        self.ids: dict[str, Any] = {name: self._library.token_to_id(name) for name in SPECIAL}

    def _encode(self, piece: str) -> tuple[int, ...]:
        return tuple(self._library.encode(piece, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._library.decode(ids, skip_special_tokens=False))

    def tokens(self) -> list[str]:
        """Every token in the order of its id, in the byte alphabet of GPT-2; padded to SIZE."""
        known = self._library.get_vocab(with_added_tokens=True)
        names = {index: name for name, index in known.items()}
        return [names.get(index, f"[PAD{index}]") for index in range(SIZE)]

    def merges(self) -> list[str]:
        """The merges in the order of their rank, as GGUF wants them."""
        rows = json.loads(self.text)["model"]["merges"]
        return [row if isinstance(row, str) else " ".join(row) for row in rows]


def library(model: Any) -> Any:
    """The tokenizers library around a BPE model: how Qwen2 splits text, and bytes for letters."""
    from tokenizers import Regex, decoders, pre_tokenizers
    from tokenizers import Tokenizer as Library

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # data workers are forked
    built: Any = Library(model)
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    built.decoder = decoders.ByteLevel()
    return built


def build() -> Tokenizer:
    """Train the tokenizer; the same words give the same tokenizer."""
    from tokenizers import AddedToken, models, pre_tokenizers, trainers

    built = library(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    built.train_from_iterator(_sentences(), trainer)
    built.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return Tokenizer(built.to_str())


def _sentences() -> list[str]:
    answers = [
        words.caption(*one)
        for one in itertools.product(
            words.COLOURS, words.SHAPES, ("", *words.MOTIONS), ("", *words.COLOURS, *words.MOTIONS)
        )
    ]
    questions = [*words.CAPTION, *words.COLOUR, *words.SHAPE, *words.MOTION, *words.COUNT]
    labels = [one.format(number=3, time_s=1.5) for one in words.LABELS]
    rare = [*words.OFF_TOPIC, *words.SYSTEM, *(f" {word}" for word in words.FILLER)]
    counting = [*words.NUMBER, *(one.format(first=3, last=9) for one in words.COUNT_ON)]
    questions += [*counting, " The number is 1.", "1, 2, 3"]
    often = [
        *questions,
        *labels,
        words.NO_VIDEO,
        words.REFUSAL,
        "user\n",
        "assistant\n",
        "system\n",
    ]
    return answers + often * 20 + rare * 2
