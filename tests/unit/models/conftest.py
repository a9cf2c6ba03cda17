"""Small GGUF files, written by the gguf package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

TENSORS = {"token_embd.weight": (4, 64), "blk.0.attn_q.weight": (8, 64), "output.weight": (4, 64)}
MakeGguf = Callable[..., Path]


def write(
    path: Path,
    architecture: str,
    values: Mapping[str, Any] = {},
    tensors: Mapping[str, tuple[int, ...]] = TENSORS,
) -> Path:
    """A GGUF file with F32 tensors (numpy shapes) and values: int, str, or list of bool."""
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, architecture)
    for key, value in values.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_uint32(key, value)
    for name, shape in tensors.items():
        writer.add_tensor(name, numpy.ones(shape, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def text_model(tmp_path: Path) -> MakeGguf:
    """Make a text model: text_model(name=…, width=…, **more values)."""

    def make(
        name: str = "model.gguf", width: int = 64, arch: str = "qwen3moe", **values: Any
    ) -> Path:
        content = {
            f"{arch}.context_length": 4096,
            f"{arch}.embedding_length": width,
            "general.file_type": 32,
            "tokenizer.chat_template": "{{ messages }}",
        }
        content.update({key.replace("__", "."): value for key, value in values.items()})
        kept = {key: value for key, value in content.items() if value is not None}
        return write(tmp_path / name, arch, kept)

    return make


@pytest.fixture
def projector(tmp_path: Path) -> MakeGguf:
    """Make a projector: projector(name=…, width=…, kind=…, deepstack=…)."""

    def make(
        name: str = "mmproj.gguf",
        width: int | None = 64,
        kind: str | None = "qwen3vl_merger",
        deepstack: list[bool] | None = None,
    ) -> Path:
        content = {
            "clip.vision.projection_dim": width,
            "clip.projector_type": kind,
            "clip.vision.is_deepstack_layers": deepstack,
        }
        kept = {key: value for key, value in content.items() if value is not None}
        return write(tmp_path / name, "clip", kept, {"mm.2.weight": (64, 96)})

    return make
