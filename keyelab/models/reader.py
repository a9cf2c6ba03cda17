"""A GGUF header, read value by value, so that damage can say where it stands.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Tensor types and their sizes
come from the `gguf` package. Its own GGUFReader is no help with a bad file: it gives up on cut
weights without naming them and does not end on a damaged length.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from keyelab.errors import KeyelabError
from keyelab.files import shown

_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
_MAX_VALUE_BYTES = 2**30  # a longer one is damage, not a vocabulary
_SCALARS = "BbHhIif?"  # struct codes of value types 0 to 7
_STRING, _ARRAY = 8, 9
_WIDE = {10: "Q", 11: "q", 12: "d"}
_CODES: dict[int, str] = {**dict(enumerate(_SCALARS)), **_WIDE}


@dataclass(frozen=True)
class Tensor:
    """One tensor: `offset_bytes` from the start of the file, `size_bytes` of its data."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset_bytes: int
    size_bytes: int


class Reader:
    """Takes values from an open file and knows where it stands."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self.stream = stream
        self.size_bytes = os.fstat(stream.fileno()).st_size
        self.at = 0
        self.part = "the first 24 bytes"

    def content(self) -> tuple[int, dict[str, Any], tuple[Tensor, ...]]:
        """Version, key-values and tensors; raises KeyelabError for a cut or damaged header."""
        self._take(4)
        (version,) = self._unpack("I")
        if version not in _VERSIONS:
            swapped = version & 0xFFFF == 0
            found = "big-endian byte order" if swapped else f"version {version}"
            raise self._damaged(f"{found} (expected GGUF version 2 or 3, little-endian)")
        tensor_count, value_count = self._unpack("QQ")
        values: dict[str, Any] = {}
        for number in range(value_count):
            self.part = f"key {number + 1} of {value_count}"
            key = self._string()
            if key in values:
                raise self._damaged(f"the key {key!r} twice")
            self.part = f"the value of {key[:80]!r}"
            values[key] = self._value(*self._unpack("I"))
        return version, values, self._tensors(tensor_count, values)

    def _tensors(self, count: int, values: dict[str, Any]) -> tuple[Tensor, ...]:
        align = values.get("general.alignment", 32)
        if type(align) is not int or align < 1 or align & (align - 1):
            raise self._damaged(f"general.alignment {align!r} (expected a power of two)")
        rows = []
        for number in range(count):
            self.part = f"tensor {number + 1} of {count}"
            rows.append(self._tensor())
        start = -(-self.at // align) * align
        expected = 0
        for tensor in rows:
            if tensor.offset_bytes != expected:
                raise self._damaged(
                    f"tensor {tensor.name} at offset {tensor.offset_bytes} (expected {expected})"
                )
            expected += -(-tensor.size_bytes // align) * align
        return tuple(replace(t, offset_bytes=start + t.offset_bytes) for t in rows)

    def _tensor(self) -> Tensor:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        name = self._string()
        self.part += f" ({name[:80]})"
        (dimensions,) = self._unpack("I")
        if dimensions > _MAX_DIMENSIONS:
            raise self._damaged(f"{dimensions} dimensions (expected at most {_MAX_DIMENSIONS})")
        shape = self._unpack(f"{dimensions}Q")
        number, offset = self._unpack("IQ")
        try:
            kind = GGMLQuantizationType(number)
        except ValueError:
            raise self._damaged(
                f"tensor type {number}, which this gguf package does not know"
            ) from None
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if (shape[0] if shape else 1) % block:
            raise self._damaged(
                f"{shape[0]} columns of {kind.name} (expected a multiple of {block})"
            )
        size = math.prod(shape) // block * block_bytes
        return Tensor(name, shape, str(kind.name), offset, size)

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _CODES:
            return self._unpack(_CODES[kind])[0]
        if kind != _ARRAY:
            raise self._damaged(f"value type {kind} (expected 0 to 12)")
        item, count = self._unpack("IQ")
        if item == _STRING:
            return tuple(self._string() for _ in range(count))
        if item not in _CODES:
            raise self._damaged(f"an array of value type {item}")
        width = struct.calcsize("<" + _CODES[item])
        return struct.unpack(f"<{count}{_CODES[item]}", self._take(count * width))

    def _string(self) -> str:
        return self._take(*self._unpack("Q")).decode("utf-8", errors="replace")

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        return struct.unpack("<" + codes, self._take(struct.calcsize("<" + codes)))

    def _take(self, count: int) -> bytes:
        left = self.size_bytes - self.at
        if count > left:
            raise KeyelabError(
                f"expected {count} bytes for {self.part} at byte {self.at} of {shown(self.path)}, "
                f"found {left}: the header is cut off (or damaged)",
                f"remove the file and download it again: rm {shown(self.path)}",
            )
        if count > _MAX_VALUE_BYTES:
            raise self._damaged(f"a length of {count} bytes")
        content = self.stream.read(count)
        if len(content) != count:
            raise self._damaged("a file that changes while it is read")
        self.at += count
        return content

    def _damaged(self, found: str) -> KeyelabError:
        return KeyelabError(
            f"expected a sound GGUF header in {shown(self.path)}, found {found} in {self.part}",
            "compare its digest with the source's: sha256sum; a newer format may need "
            "pip install -U gguf",
        )
