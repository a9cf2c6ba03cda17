from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keyelab import params
from keyelab.facts import BuildFacts, FileFact, ModelFacts
from keyelab.serving import command, process, state
from keyelab.serving.lifecycle import Place

STUB = Path(__file__).parents[2] / "data" / "serving" / "stub_server.py"


def file_fact(path: Path) -> FileFact:
    return FileFact(path=str(path), sha256="0" * 64, size_bytes=path.stat().st_size)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The stub as an executable named llama-server."""
    path = tmp_path / "bin" / "llama-server"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{STUB.read_text()}")
    path.chmod(0o755)
    return path


@pytest.fixture
def model(tmp_path: Path) -> ModelFacts:
    for name in ("model.gguf", "mmproj.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    return ModelFacts(
        model=file_fact(tmp_path / "model.gguf"),
        mmproj=file_fact(tmp_path / "mmproj.gguf"),
        source="path",
        architecture="qwen3vlmoe",
        projector="qwen3vl_merger",
        parameters=1,
        quantization="F16",
        context_tokens=4096,
        embedding_width=128,
        chat_template=True,
    )


@pytest.fixture
def build(program: Path, tmp_path: Path) -> BuildFacts:
    return BuildFacts(
        build_dir=str(tmp_path),
        key="0" * 64,
        reused=False,
        backend="cpu",
        gpu_targets="",
        build_type="Release",
        version="b10019-0123456789ab",
        backends=["CPU"],
        command="",
        binaries={"llama-server": file_fact(program)},
    )


@pytest.fixture
def make_plan(build: BuildFacts, model: ModelFacts) -> Callable[..., command.ServerPlan]:
    """A server plan for the stub; keyword arguments are serve parameters."""

    def make(**given: Any) -> command.ServerPlan:
        return command.make(params.Serve(**given), build, model, os.environ)

    return make


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Where servers of a test live; whatever still runs is ended."""
    made = Place(tmp_path / "work", tmp_path / "run", tmp_path / "run" / "logs" / "server.log")
    yield made
    for left in state.all_states(made.workdir):
        process.stop(left, grace_s=0.5)


@pytest.fixture
def faulty() -> Callable[..., dict[str, str]]:
    """An environment that makes the stub misbehave."""

    def environment(**faults: Any) -> dict[str, str]:
        return {**os.environ, "STUB": json.dumps(faults)}

    return environment
