from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab import params
from keyelab.build import plan, toolchain
from keyelab.build.plan import BuildPlan
from keyelab.build.result import Result
from keyelab.facts import EnvFacts, FileFact, HeaderFacts, ModelFacts, SourceFacts
from keyelab.files import sha256_tree, shown
from keyelab.host import machine

TINY = Path(__file__).parents[2] / "data" / "build" / "tiny"
MakePlan = Callable[..., BuildPlan]


@pytest.fixture
def env_facts() -> EnvFacts:
    def program(name: str, least: tuple[int, int]) -> str:
        import os

        found = machine.host_or_wheel(name, least, os.environ).path
        assert found, f"{name} is needed"
        return shown(found)

    compiler = shutil.which("c++")
    assert compiler, "a C++ compiler is needed"
    return EnvFacts(
        os="Linux",
        kernel="6",
        cpu="a CPU",
        cores=2,
        memory_bytes=2**33,
        python="3.10",
        cmake=program("cmake", machine.CMAKE_LEAST),
        ninja=program("ninja", machine.NINJA_LEAST),
        cxx=compiler,
    )


@pytest.fixture
def make_plan(tmp_path: Path, env_facts: EnvFacts) -> MakePlan:
    """A plan for a copy of the tiny project; keyword arguments are build parameters.

    `asks` are facts of the source that a recipe decides.
    """

    def make(
        headers: HeaderFacts | None = None,
        compiler: str = "cc 1.0",
        version: str = "10019.0.0",
        tree: Path | None = None,
        asks: dict[str, Any] | None = None,
        **given: Any,
    ) -> BuildPlan:
        tree = tree or tmp_path / "tree"
        if not tree.exists():
            shutil.copytree(TINY, tree)
        digest = sha256_tree(tree)
        source = SourceFacts(
            tree=str(tree),
            origin="tests",
            version=version,
            base_sha256=digest,
            tree_sha256=digest,
            **{"recipe": "", "patches": [], **(asks or {})},
        )
        values = params.Build(workdir=str(tmp_path / "work"), **given)
        found = toolchain.Toolchain(compiler)
        return plan.make(source, env_facts, headers or HeaderFacts(), values, found)

    return make


@pytest.fixture
def model() -> ModelFacts:
    file = FileFact(path="models/m.gguf", sha256="0" * 64, size_bytes=1)
    return ModelFacts(
        model=file,
        mmproj=file,
        source="path",
        architecture="qwen3vlmoe",
        projector="qwen3vl_merger",
        parameters=1,
        quantization="BF16",
        context_tokens=4096,
        embedding_width=128,
        chat_template=True,
    )


@pytest.fixture
def seen() -> Result:
    return Result("b1-x", ["HIP"], ["ROCm0: K100_AI (1 MiB, 1 MiB free)"], [], ["gfx928"], {})


@pytest.fixture
def quiet() -> Callable[[float | None, str], None]:
    return lambda fraction, text: None


@pytest.fixture
def hip_plan(make_plan: MakePlan) -> MakePlan:
    """A plan of a finished HIP build, whose test-backend-ops notes its words and says a text."""

    def make(says: str = "", status: int = 0, **asks: Any) -> BuildPlan:
        plan = make_plan(backend="hip", gpu_targets="gfx928", asks=asks)
        plan.bin_dir.mkdir(parents=True, exist_ok=True)
        (plan.bin_dir / "says.txt").write_text(says)
        program = plan.bin_dir / "test-backend-ops"
        program.write_text(
            f'#!/bin/sh\ncd {plan.bin_dir}\necho "$*" >>words.txt\ncat says.txt\nexit {status}\n'
        )
        program.chmod(0o755)
        return plan

    return make
