"""Runs killed at random moments of each phase: the record is true, nothing is left, resume ends it.

KILLS kills of the 72 (phase, signal, whom) in an order by SEED; `make torture` makes 64 of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from homes import latest, make_home, phases, run_keyelab

from keyelab.files import sha256_tree
from keyelab.pipeline import PHASES
from keyelab.record import run as records
from keyelab.record import seal
from keyelab.record.verify import verify
from keyelab.serving.state import all_states

pytestmark = pytest.mark.e2e
KILLS = int(os.environ.get("KILLS", "6"))
SEED = int(os.environ.get("SEED", "192"))
TARGET = "cpu-demo"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
WHOM = ("run", "group", "kernel")
UNSEALED = {"files as sealed", "run ended"}  # what verify says of a run that was killed


@dataclass(frozen=True)
class Kill:
    """A signal to a run, its process group or its kernel, `share` of the way through `part`."""

    phase: str
    number: signal.Signals
    whom: str
    part: str
    share: float

    def __str__(self) -> str:
        return f"{self.phase}-{self.number.name}-{self.whom}-{self.part}-{self.share:.2f}"


def kills() -> list[Kill]:
    chance = random.Random(SEED)
    every = list(itertools.product(PHASES, SIGNALS, WHOM))
    chance.shuffle(every)
    parts = ["start", "phase", "phase", "phase", "phase", "seal"]
    return [Kill(*one, chance.choice(parts), chance.random()) for one in every[:KILLS]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, demo_run: Path) -> Path:
    """A checkout that starts from the demo's run, with patched trees of its own."""
    home = make_home(tmp_path_factory.mktemp("torture"))
    shutil.copytree(demo_run, home / "records" / TARGET / demo_run.name)
    trees = home / "work" / "sources"
    shared = trees.readlink()
    trees.unlink()
    trees.mkdir()
    for one in shared.iterdir():
        if not one.name.startswith("."):
            (trees / one.name).symlink_to(one)
    patched(home, demo_run).unlink()
    shutil.copytree(shared / patched(home, demo_run).name, patched(home, demo_run), symlinks=True)
    (home / "tmp").mkdir()
    return home


def patched(home: Path, run: Path) -> Path:
    """The patched tree that a run has used."""
    return home / "work" / "sources" / phases(run)["source_patch"]["facts"]["tree_sha256"][:12]


@pytest.fixture(scope="module")
def seconds(demo_run: Path) -> dict[str, float]:
    """How long each phase takes."""
    return {name: phase["duration_s"] for name, phase in phases(demo_run).items()}


def alone() -> None:
    """A process group of its own; and a shell's background job would pass an ignored SIGINT on."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def going(home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own."""
    env = {"KEYELAB_HOME": str(home), "KEYELAB_LOCKS": str(home / "locks")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from keyelab.cli import main; main()", "run", *words],
        env={**os.environ, **env, "TMPDIR": str(home / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=alone,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def left_running(home: Path) -> list[psutil.Process]:
    """Everything of a checkout that runs and is no server that `keyelab status` names."""
    named = {server.pid for server in all_states(home / "work")}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get("KEYELAB_HOME") == str(home)
            if ours and process.pid not in named and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def strike(home: Path, kill: Kill, seconds: float) -> tuple[Path | None, int, str]:
    """Start a run of the phase, kill it; returns its folder, exit status and what it printed."""
    first = "serve" if PHASES.index(kill.phase) > PHASES.index("serve") else kill.phase
    stem = records.stem(kill.phase)
    with going(home, "--target", TARGET, "--from", first, "--to", kill.phase) as process:
        assert process.stdout is not None
        said: list[str] = []
        sign = {"start": "", "phase": f"{stem} ...", "seal": f"{stem} passed after"}[kill.part]
        while sign and (line := process.stdout.readline()):
            said.append(line)
            if sign in line or f"{stem} warned after" in line:
                break
        time.sleep(kill.share * (seconds if kill.part == "phase" else 2.0))
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if kill.whom == "group":
                os.killpg(process.pid, kill.number)
            else:
                targets = [psutil.Process(process.pid)]
                if kill.whom == "kernel":
                    below = targets[0].children(recursive=True)
                    targets = [p for p in below if "ipykernel_launcher" in p.cmdline()] or targets
                targets[0].send_signal(kill.number)
        said.append(process.stdout.read())
        code = process.wait(60)
    text = "".join(said)
    folder = home / text.split()[1] if text.startswith("run ") else None
    return folder, code, text


def assert_true(folder: Path, code: int) -> records.Run:
    """Its run.json claims nothing that did not happen."""
    run = records.load(folder)
    failed = {item.name for item in verify(folder) if item.status == "failed"}
    if (folder / seal.SUMS).exists():
        assert failed == set()
        assert run.status != "running"
    else:
        assert failed <= UNSEALED
        assert code not in (0, 1, 130, 138), "who ends by himself seals"
    return run


def assert_nothing_is_left(home: Path) -> None:
    deadline = time.monotonic() + 30
    while found := left_running(home):
        assert time.monotonic() < deadline, [p.cmdline() for p in found]
        time.sleep(0.2)


def assert_clean(home: Path) -> None:
    """No server, no temporary file, and every patched tree is what its name says."""
    assert all_states(home / "work") == []
    assert list((home / "tmp").iterdir()) == []
    assert [str(p) for p in (home / "records").rglob(".*")] == []
    assert list((home / "work" / "servers").glob(".*.json.*")) == []
    for tree in (home / "work" / "sources").iterdir():
        assert not tree.name.startswith("."), "a part of a tree is left"
        if tree.is_dir() and not tree.is_symlink():
            assert sha256_tree(tree).startswith(tree.name), "a patched tree is whole or not there"


@pytest.mark.parametrize("kill", kills(), ids=str)
def test_a_run_killed_at_any_moment_tells_the_truth_and_is_resumed(
    home: Path, demo_run: Path, seconds: dict[str, float], kill: Kill
) -> None:
    (home / "records" / TARGET / "LATEST").write_text(demo_run.name)  # has all phases
    if kill.phase == "source_patch":
        shutil.rmtree(patched(home, demo_run))
    folder, code, said = strike(home, kill, seconds[kill.phase])
    assert "Traceback" not in said, said
    assert_nothing_is_left(home)
    if folder is None:
        assert code != 0, "nothing was begun"
        assert_clean(home)
        return
    run = assert_true(folder, code)
    sealed = (folder / seal.SUMS).exists()
    if not sealed:
        told = json.loads(run_keyelab(home, "status", "--json").stdout)
        assert [home / one["run"] for one in told["broken_off"]] == [folder]
    resumed = run_keyelab(home, "run", "--resume", "--target", TARGET, TMPDIR=str(home / "tmp"))
    if sealed and run.status in ("passed", "warned"):  # the signal came when all was done
        assert resumed.returncode == 1
        assert "did not end well, found none" in resumed.stdout
    else:
        assert resumed.returncode == 0, resumed.stdout
        assert_true(folder, code)
        assert records.load(folder).status != "running"
        after = latest(home)
        assert records.load(after).resumes == folder.name
        assert_true(after, 0)
        ended: dict[str, Any] = {p.phase: p.status for p in records.load(after).phases}
        assert ended[kill.phase] in ("passed", "warned")
    assert_nothing_is_left(home)
    assert_clean(home)
