"""The header of a GGUF file: what the model is, and whether the file holds all of its weights.

No weight is read.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.models.kind import require_gguf
from keyelab.models.reader import Reader, Tensor

_GUESSED = 1024  # LLAMA_FTYPE_GUESSED, a flag on general.file_type


@dataclass(frozen=True)
class Header:
    """Key-values and tensors of a GGUF file of `size_bytes`."""

    path: Path
    size_bytes: int
    version: int
    values: dict[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str | None:
        """general.architecture; `clip` is a projector."""
        return self._text("general.architecture")

    @property
    def projector(self) -> bool:
        """The file is a multimodal projector, not a text model."""
        return self.architecture == "clip"

    @property
    def parameters(self) -> int:
        """Number of weights in all tensors of this file."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def tensor_types(self) -> dict[str, int]:
        """{type: number of weights}, most first."""
        counts: Counter[str] = Counter()
        for tensor in self.tensors:
            counts[tensor.type] += math.prod(tensor.shape)
        return dict(counts.most_common())

    @property
    def quantization(self) -> str | None:
        """general.file_type as llama.cpp names it, else the type of most weights."""
        from gguf import LlamaFileType

        number = self.values.get("general.file_type")
        if isinstance(number, int):
            try:
                name = LlamaFileType(number & ~_GUESSED).name
            except ValueError:
                name = ""
            if name:
                return str(name).removeprefix("MOSTLY_").removeprefix("ALL_")
        return next(iter(self.tensor_types), None)

    @property
    def chat_template(self) -> bool:
        """The file brings its own chat template."""
        return bool(self.values.get("tokenizer.chat_template"))

    def number(self, name: str) -> int | None:
        """A whole number of this architecture, such as context_length; None when absent."""
        value = self.values.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) else None

    def _text(self, key: str) -> str | None:
        value = self.values.get(key)
        return value if isinstance(value, str) else None


def read(path: Path, role: str = "model") -> Header:
    """Read and prove the header; no weight is read, so 57 GB take as long as 1 MB.

    Raises KeyelabError for what is no GGUF file, a header that is cut or damaged, and weights
    that are missing at the end (naming the first tensor and the number of bytes).
    """
    require_gguf(path, role)
    try:
        with path.open("rb") as stream:
            reader = Reader(path, stream)
            header = Header(path, reader.size_bytes, *reader.content())
    except OSError as error:
        raise KeyelabError(
            f"expected to read {shown(path)}, found: {error.strerror}", f"ls -l {shown(path)}"
        ) from None
    _require_weights(header)
    return header


def _require_weights(header: Header) -> None:
    cut = [t for t in header.tensors if t.offset_bytes + t.size_bytes > header.size_bytes]
    if not cut:
        return
    end = max(t.offset_bytes + t.size_bytes for t in header.tensors)
    others = f" and {len(cut) - 1} more" if len(cut) > 1 else ""
    raise KeyelabError(
        f"expected {end} bytes in {shown(header.path)}, found {header.size_bytes}: incomplete, "
        f"{end - header.size_bytes} bytes of tensor {cut[0].name}{others} are missing",
        f"remove it and download it again; for ModelScope's client to go on from here instead: "
        f"mv {shown(header.path)} {shown(header.path)}.incomplete",
    )
