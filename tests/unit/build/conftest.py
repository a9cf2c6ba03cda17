from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab import params
from keyelab.build import plan, toolchain
from keyelab.build.plan import BuildPlan
from keyelab.facts import EnvFacts, HeaderFacts, SourceFacts
from keyelab.files import sha256_tree, shown
from keyelab.host import tools

TINY = Path(__file__).parents[2] / "data" / "build" / "tiny"
MakePlan = Callable[..., BuildPlan]


@pytest.fixture
def env_facts() -> EnvFacts:
    def program(name: str, least: tuple[int, int]) -> str:
        import os

        found = tools.host_or_wheel(name, least, os.environ).path
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
        cmake=program("cmake", tools.CMAKE_LEAST),
        ninja=program("ninja", tools.NINJA_LEAST),
        cxx=compiler,
    )


@pytest.fixture
def make_plan(tmp_path: Path, env_facts: EnvFacts) -> MakePlan:
    """A plan for a copy of the tiny project; keyword arguments are build parameters."""

    def make(
        headers: HeaderFacts | None = None,
        compiler: str = "cc 1.0",
        version: str = "10019.0.0",
        tree: Path | None = None,
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
            recipe="",
            base_sha256=digest,
            tree_sha256=digest,
            patches=[],
        )
        values = params.Build(workdir=str(tmp_path / "work"), **given)
        found = toolchain.Toolchain(compiler)
        return plan.make(source, env_facts, headers or HeaderFacts(), values, found)

    return make
