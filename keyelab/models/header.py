"""The header of a GGUF file: what the model is, and whether the file holds all of its weights."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.models.reader import Reader, Tensor

_LFS = b"version https://git-lfs.github.com/spec/"
_OLD_GGML = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt"}  # the magic, little-endian


@dataclass(frozen=True)
class Header:
    """Key-values and tensors of a GGUF file of `size_bytes`."""

    path: Path
    size_bytes: int
    values: dict[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str | None:
        """general.architecture; `clip` is a projector."""
        value = self.values.get("general.architecture")
        return value if isinstance(value, str) else None

    @property
    def parameters(self) -> int:
        """Number of weights in all tensors of this file."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def quantization(self) -> str | None:
        """general.file_type as llama.cpp names it, else the type of most weights."""
        from gguf import LlamaFileType

        try:
            name = str(LlamaFileType(self.values["general.file_type"]).name)
        except (KeyError, ValueError):
            weights: Counter[str] = Counter()
            for tensor in self.tensors:
                weights[tensor.type] += math.prod(tensor.shape)
            return max(weights, key=weights.__getitem__, default=None)
        return name.removeprefix("MOSTLY_").removeprefix("ALL_")

    @property
    def chat_template(self) -> bool:
        """The file brings its own chat template."""
        return bool(self.values.get("tokenizer.chat_template"))

    def number(self, name: str) -> int:
        """A whole number of this architecture, such as context_length; KeyelabError if absent."""
        key = f"{self.architecture}.{name}"
        value = self.values.get(key)
        if not isinstance(value, int):
            raise KeyelabError(
                f"expected the number {key} in {shown(self.path)}, found {value}",
                "convert the model again with a current convert_hf_to_gguf.py",
            )
        return value


def read(path: Path, role: str = "model") -> Header:
    """Read and prove the header; no weight is read, so 57 GB take as long as 1 MB.

    Raises KeyelabError for what is no GGUF file (saying what it is), a header that is cut or
    damaged, and weights that are missing at the end (naming the first tensor and the bytes).
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise KeyelabError(
            f"expected the {role} file {shown(path)}, found: {error.strerror}",
            f"set model_fetch.{role}_file and model_dir: ls -l {shown(path.parent)}",
        ) from None
    with stream:
        _require_gguf(path, role, stream.read(1024))
        stream.seek(0)
        reader = Reader(stream)
        try:
            header = Header(path, reader.size_bytes, *reader.content())
        except ValueError as error:
            raise KeyelabError(
                f"expected a sound GGUF header in {shown(path)}, found it cut off or damaged "
                f"at byte {stream.tell()}: {error}",
                "fetch the file again; a newer format may need: pip install -U gguf",
            ) from None
    _require_weights(header)
    return header


def _require_gguf(path: Path, role: str, head: bytes) -> None:
    if head.startswith(b"GGUF"):
        return
    remedy = f"move {path.name} away and download the file itself, not its web page"
    if head.startswith(_LFS):
        size = re.search(rb"^size (\d+)$", head, re.MULTILINE)
        found = f"a git-lfs pointer to a file of {int(size[1]) if size else 'unknown'} bytes"
        remedy = f"git -C {shown(path.parent)} lfs pull --include {path.name}"
    elif head.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith((b"<!doctype html", b"<html")):
        found = "a web page (HTML)"
    elif head[:4] in _OLD_GGML:
        found = f"an old GGML file ({_OLD_GGML[head[:4]]}), from before GGUF"
        remedy = "download the GGUF file of the same model, or convert it anew"
    elif head:
        found = f"a file that starts with {head[:16]!r}"
    else:
        found = "a file of 0 bytes"
    raise KeyelabError(f"expected a GGUF file at {shown(path)} ({role}), found {found}", remedy)


def _require_weights(header: Header) -> None:
    cut = [t for t in header.tensors if t.offset_bytes + t.size_bytes > header.size_bytes]
    if not cut:
        return
    end = max(t.offset_bytes + t.size_bytes for t in cut)
    others = f" and {len(cut) - 1} more" if len(cut) > 1 else ""
    raise KeyelabError(
        f"expected {end} bytes in {shown(header.path)}, found {header.size_bytes}: incomplete, "
        f"{end - header.size_bytes} bytes of tensor {cut[0].name}{others} are missing",
        f"remove it and fetch it again: rm {shown(header.path)}",
    )
