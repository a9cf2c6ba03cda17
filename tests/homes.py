"""Checkouts for tests that run the keyelab command: records of their own, the rest shared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
