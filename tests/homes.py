"""Checkouts for tests that run the keyelab command: records and servers of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SHARED = ("builds", "downloads", "gates", "overlays", "sources", "videos")  # dear, and by digest


def start_keyelab(home: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """Start the keyelab command on a checkout; standard output holds both streams."""
    locks = str(home / "locks")  # stand-ins for cards are no reason to refuse each other
    return subprocess.Popen(
        [sys.executable, "-c", "from keyelab.cli import main; main()", *words],
        env={**os.environ, "KEYELAB_HOME": str(home), "KEYELAB_LOCKS": locks, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_keyelab(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the keyelab command on a checkout to its end."""
    with start_keyelab(home, *words, **env) as process:
        try:
            said, _ = process.communicate(timeout=1800)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, said)


def latest(home: Path, target: str = "cpu-demo") -> Path:
    """The newest run folder of a target."""
    folder = home / "records" / target
    return folder / (folder / "LATEST").read_text().strip()


def phases(run: Path) -> dict[str, dict[str, Any]]:
    """What run.json says of each phase."""
    content = json.loads((run / "run.json").read_text())
    return {phase["phase"]: phase for phase in content["phases"]}


def make_home(folder: Path) -> Path:
    """A checkout with records, servers and locks of its own; everything else is this one's."""
    for name in ("notebooks", "params", "patches", "keyelab", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "work").mkdir()
    for name in SHARED:
        (ROOT / "work" / name).mkdir(parents=True, exist_ok=True)
        (folder / "work" / name).symlink_to(ROOT / "work" / name)
    return folder


def add_broken_target(home: Path) -> None:
    """Give a checkout parameters of its own, and the target `broken`: smoke, whose 01 fails."""
    (home / "params").unlink()
    shutil.copytree(ROOT / "params", home / "params")
    folder = shutil.copytree(home / "params" / "smoke", home / "params" / "broken")
    # no machine has such a disk
    for name, value in (("common", {"target": "broken"}), ("env_check", {"min_disk_gib": 1e6})):
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **value}))
