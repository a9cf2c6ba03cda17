"""The kernels that `article` changes, compiled by nvcc where a whole CUDA toolkit is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from keyelab.patching.apply import apply_plan
from keyelab.patching.plan import make_plan
from keyelab.patching.recipe import load_recipe

pytestmark = pytest.mark.source
# further include folders, colon between, where the toolkit's headers are not beside nvcc
EXTRA = [
    f"-I{folder}" for folder in os.environ.get("KEYELAB_CUDA_INCLUDE", "").split(":") if folder
]


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    program = shutil.which("nvcc")
    if program is None:
        pytest.skip("no nvcc on PATH")
    probe = tmp_path_factory.mktemp("nvcc") / "probe.cu"
    probe.write_text("#include <cublas_v2.h>\n#include <cub/cub.cuh>\n", encoding="utf-8")
    command = [program, "-std=c++17", "-arch=sm_80", *EXTRA]
    tried = subprocess.run([*command, "-E", probe, "-o", os.devnull], capture_output=True)
    if tried.returncode:
        pytest.skip("nvcc has no cublas_v2.h or cub: KEYELAB_CUDA_INCLUDE names no folder of them")
    return command


@pytest.fixture(scope="module")
def patched(llama_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = make_plan(llama_source, load_recipe("article").rules)
    return apply_plan(plan, tmp_path_factory.mktemp("patched")).tree


@pytest.mark.parametrize("name", ["norm", "softmax", "argmax"])
def test_a_changed_kernel_compiles(nvcc: list[str], patched: Path, name: str) -> None:
    kernels = patched / "ggml" / "src" / "ggml-cuda"
    folders = [f"-I{folder}" for folder in (patched / "ggml/include", kernels.parent, kernels)]
    done = subprocess.run(
        [*nvcc, *folders, "-c", kernels / f"{name}.cu", "-o", os.devnull],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
