from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keyelab import params
from keyelab.facts import BuildFacts, EnvFacts, FileFact, ModelFacts, SourceFacts
from keyelab.serving import command, process, state
from keyelab.serving.lifecycle import Place

STUB = Path(__file__).parents[2] / "data" / "serving" / "stub_server.py"


def file_fact(path: Path) -> FileFact:
    return FileFact(path=str(path), sha256="0" * 64, size_bytes=path.stat().st_size)


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of a test's own: its cards and ports are nobody else's."""
    monkeypatch.setenv("KEYELAB_LOCKS", str(tmp_path / "locks"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The stub as an executable named llama-server."""
    path = tmp_path / "bin" / "llama-server"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{STUB.read_text()}")
    path.chmod(0o755)
    path.with_name("help.txt").write_text((STUB.parent / "help" / "b10019.txt").read_text())
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
def host() -> EnvFacts:
    """A machine with four cores and no card."""
    return EnvFacts(
        os="Ubuntu", kernel="6.8", cpu=None, cores=4, memory_bytes=2**33,
        python="3.12", cmake="3.28", ninja="1.11", cxx=None,
    )  # fmt: skip


@pytest.fixture
def source() -> SourceFacts:
    return SourceFacts(
        tree="work/sources/t",
        origin="tests",
        version="10019.0.0",
        recipe="article",
        base_sha256="0" * 64,
        tree_sha256="1" * 64,
        patches=[],
    )


@pytest.fixture
def make_plans(
    host: EnvFacts, model: ModelFacts, source: SourceFacts, build: BuildFacts
) -> Callable[..., list[command.ServerPlan]]:
    """Plans for the stub, one a replica; keyword arguments are serve parameters."""

    def make(**given: Any) -> list[command.ServerPlan]:
        return command.plans(params.Serve(**given), os.environ, host, model, source, build)

    return make


@pytest.fixture
def make_plan(
    make_plans: Callable[..., list[command.ServerPlan]],
) -> Callable[..., command.ServerPlan]:
    """The plan of one server."""
    return lambda **given: make_plans(**given)[0]


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
        return {**os.environ, "GGML_STUB": json.dumps(faults)}

    return environment
