"""One real run of cpu-demo, in a checkout of its own that shares work/ with this one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import latest, make_home, run_keyelab


@pytest.fixture(scope="session", autouse=True)
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which cpu-demo has run; the first run on a machine builds llama.cpp.

    Every test here needs that build, also those that only look for a llama-server.
    """
    home = make_home(tmp_path_factory.mktemp("demo"))
    done = run_keyelab(home, "run", "--target", "cpu-demo")
    assert done.returncode == 0, done.stdout
    return home


@pytest.fixture(scope="session")
def demo_run(demo_home: Path) -> Path:
    """The run folder of that run."""
    return latest(demo_home)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
