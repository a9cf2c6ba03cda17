"""The preloaded launch counter, against a stand-in for the CUDA runtime: no GPU is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler cc on PATH")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launches")
    shared = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*shared, HERE / "launches.c", "-o", folder / "launches.so", "-ldl"], check=True)
    subprocess.run([*shared, HERE / "fake/cudart.c", "-o", folder / "libcudart.so"], check=True)
    linked = ["-L", folder, "-lcudart", f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", HERE / "fake/program.c", "-o", folder / "program", *linked], check=True)
    return folder


def run(built: Path, log: Path, **env: str) -> list[str]:
    preload = {"LD_PRELOAD": str(built / "launches.so"), "KEYELAB_LAUNCH_LOG": str(log)}
    done = subprocess.run(
        [built / "program"],
        env={**os.environ, **preload, **env},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_every_kernel_is_counted_with_its_largest_block(built: Path, tmp_path: Path) -> None:
    assert run(built, tmp_path / "log") == ["0", "0", "0"]
    counted = sorted((tmp_path / "log").read_text(encoding="utf-8").splitlines())
    assert counted == ["1024 2 _Z4widePf", "64 1 _Z6narrowPf"]


def test_a_launch_above_the_limit_is_refused_and_named_at_once(built: Path, tmp_path: Path) -> None:
    invalid_configuration = "9"
    statuses = run(built, tmp_path / "log", KEYELAB_LAUNCH_LIMIT="256")
    assert statuses == ["0", invalid_configuration, "0"]
    first = (tmp_path / "log").read_text(encoding="utf-8").splitlines()[0]
    assert first == "refused 1024 2 _Z4widePf"
