"""The model of random weights has the types that llama-quantize chooses, and loads."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.llama import find_server

SMALL = ["--layers", "8", "--width", "256", "--experts", "16", "--inner", "256"]
WRITER = runpy.run_path(str(Path(__file__).with_name("random_model.py")))


def types(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    import gguf

    found: list[Any] = gguf.GGUFReader(path).tensors
    return {t.name: (t.tensor_type.name, tuple(map(int, t.shape))) for t in found}


def write(path: Path, kind: str) -> Path:
    WRITER["main"]([str(path), "--type", kind, "--vocabulary", "600", *SMALL])
    return path


def test_the_random_mix_of_types_is_that_of_llama_quantize(tmp_path: Path) -> None:
    quantize = find_server().with_name("llama-quantize")
    if not quantize.exists():
        pytest.skip(f"no llama-quantize beside {quantize.parent}")
    plain, mixed = write(tmp_path / "a.gguf", "BF16"), write(tmp_path / "b.gguf", "Q4_K_M")
    made = tmp_path / "c.gguf"
    subprocess.run([quantize, plain, made, "Q4_K_M"], check=True, capture_output=True)
    assert types(mixed) == types(made)


@pytest.mark.parametrize("kind", ["BF16", "Q4_K_M"])
def test_random_weights_are_finite_and_have_the_deviation_asked_for(
    tmp_path: Path, kind: str
) -> None:
    import gguf
    import numpy as np
    from gguf.quants import dequantize

    tensors: list[Any] = gguf.GGUFReader(write(tmp_path / "m.gguf", kind)).tensors
    for tensor in tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        assert np.isfinite(values).all(), tensor.name
        if values.size > 1000:
            assert 0.012 < values.std() < 0.03, (tensor.name, values.std())
            assert abs(values.mean()) < 0.005, tensor.name
