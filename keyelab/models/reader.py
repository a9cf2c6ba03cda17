"""A GGUF header, read value by value.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Tensor types and their sizes
come from the `gguf` package.
"""

# gguf 0.19's GGUFReader names no cut tensor ("cannot reshape array of size 240"), loops over a
# damaged array length, and took 7.2 s, not 0.3 s, for a header with 152,000 tokens

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

_MAX_VALUE_BYTES = 2**30  # a longer one is damage, not a vocabulary
_STRING, _ARRAY = 8, 9
_CODES = {**dict(enumerate("BbHhIif?")), 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class Tensor:
    """One tensor: `offset_bytes` from the start of the file, `size_bytes` of its data."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset_bytes: int
    size_bytes: int


class Reader:
    """Takes values from an open file; its position is where damage stands."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.size_bytes = os.fstat(stream.fileno()).st_size

    def content(self) -> tuple[dict[str, Any], tuple[Tensor, ...]]:
        """Key-values and tensors; raises ValueError for a cut or damaged header."""
        _, version = self._numbers("I", 2)
        if version not in (2, 3):
            raise ValueError(f"version {version} (2 and 3 are read, little-endian)")
        tensor_count, value_count = self._numbers("Q", 2)
        values = {self._string(): self._value() for _ in range(value_count)}
        tensors = [self._tensor() for _ in range(tensor_count)]
        align = values.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1:
            raise ValueError(f"general.alignment {align!r}")
        start = -(-self.stream.tell() // align) * align
        return values, tuple(replace(t, offset_bytes=start + t.offset_bytes) for t in tensors)

    def _tensor(self) -> Tensor:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        name = self._string()
        (dimensions,) = self._numbers("I")
        shape = self._numbers("Q", dimensions)
        (number,) = self._numbers("I")
        (offset,) = self._numbers("Q")
        kind = GGMLQuantizationType(number)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        return Tensor(name, shape, str(kind.name), offset, math.prod(shape) // block * block_bytes)

    def _value(self) -> Any:
        (kind,) = self._numbers("I")
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalars(kind, 1)[0]
        (item,) = self._numbers("I")
        (count,) = self._numbers("Q")
        if item == _STRING:
            return tuple(self._string() for _ in range(count))
        return self._scalars(item, count)

    def _scalars(self, kind: int, count: int) -> tuple[Any, ...]:
        if kind not in _CODES:
            raise ValueError(f"value type {kind}")
        return self._numbers(_CODES[kind], count)

    def _string(self) -> str:
        (length,) = self._numbers("Q")
        return self._take(length).decode("utf-8", errors="replace")

    def _numbers(self, code: str, count: int = 1) -> tuple[Any, ...]:
        content = self._take(count * struct.calcsize(f"<{code}"))
        return struct.unpack(f"<{count}{code}", content)

    def _take(self, count: int) -> bytes:
        at = self.stream.tell()
        if count > min(self.size_bytes - at, _MAX_VALUE_BYTES):
            raise ValueError(f"{count} bytes wanted, the file has {self.size_bytes}")
        return self.stream.read(count)
