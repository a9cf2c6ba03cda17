"""One real run of cpu-demo, in a checkout of its own that shares work/ with this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_keyelab(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the keyelab command on a checkout; standard output holds both streams."""
    return subprocess.run(
        [sys.executable, "-c", "from keyelab.cli import main; main()", *words],
        env={**os.environ, "KEYELAB_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )


def latest(home: Path, target: str = "cpu-demo") -> Path:
    """The newest run folder of a target."""
    folder = home / "records" / target
    return folder / (folder / "LATEST").read_text().strip()


def make_home(folder: Path) -> Path:
    """A checkout with records of its own; everything else is this one's."""
    (ROOT / "work").mkdir(exist_ok=True)
    for name in ("notebooks", "params", "patches", "keyelab", "tests", "work"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which cpu-demo has run; the first run on a machine builds llama.cpp."""
    home = make_home(tmp_path_factory.mktemp("demo"))
    done = run_keyelab(home, "run", "--target", "cpu-demo")
    assert done.returncode == 0, done.stdout
    return home


@pytest.fixture(scope="session")
def demo_run(demo_home: Path) -> Path:
    """The run folder of that run."""
    return latest(demo_home)
