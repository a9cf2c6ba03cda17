"""Run folders on disks that fail, and runs of one target at the same time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from homes import latest, make_home, phases, run_keyelab, start_keyelab

from keyelab.record import interrupted, seal
from keyelab.record.verify import verify

pytestmark = pytest.mark.e2e
SHORT = ("--target", "cpu-demo", "--to", "model_fetch")


@pytest.fixture
def disk_home(tmp_path: Path, small_disk: Path) -> Path:
    """A checkout whose records are on the small disk."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "records").symlink_to(small_disk)
    return make_home(home)


def fill(disk: Path) -> Path:
    """Leave no room on a disk; returns the file to remove again."""
    junk = disk / "junk"
    with junk.open("wb", buffering=0) as sink:
        while free := shutil.disk_usage(disk).free:
            sink.write(bytes(min(free, 1 << 20)))
    return junk


def one_sentence(done: subprocess.CompletedProcess[str], found: str) -> None:
    assert done.returncode == 1, done.stdout
    said, hint = done.stdout.splitlines()[-2:]
    assert found in said
    assert said.startswith("keyelab: expected to write records/cpu-demo")
    assert hint.startswith("  next: df -h records/cpu-demo")
    assert "Traceback" not in done.stdout


def test_a_full_or_read_only_disk_is_one_sentence_and_leaves_nothing(
    disk_home: Path, small_disk: Path
) -> None:
    junk = fill(small_disk)
    one_sentence(run_keyelab(disk_home, "run", *SHORT), "No space left on device")
    assert list((disk_home / "records").glob("*/*")) == []
    junk.unlink()
    (small_disk / "cpu-demo").mkdir(exist_ok=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        one_sentence(run_keyelab(disk_home, "run", *SHORT), "Read-only file system")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert list((disk_home / "records").glob("*/*")) == []
    assert run_keyelab(disk_home, "run", *SHORT).returncode == 0


def test_a_run_that_the_disk_ended_is_closed_and_gone_on_from_when_there_is_room(
    disk_home: Path, small_disk: Path
) -> None:
    with start_keyelab(disk_home, "run", *SHORT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("02_model_fetch ..."):
                break
        junk = fill(small_disk)
        rest = process.stdout.read()
    assert process.returncode == 1, rest
    (folder,) = (disk_home / "records" / "cpu-demo").glob("2*")
    assert json.loads((folder / "run.json").read_text())["status"] == "running"
    assert phases(folder)["env_check"]["status"] in ("passed", "warned")
    refused = run_keyelab(disk_home, "run", "--close")
    one_sentence(refused, "No space left on device; the run was not closed")
    assert json.loads((folder / "run.json").read_text())["status"] == "running"
    junk.unlink()
    done = run_keyelab(disk_home, "run", "--resume")
    assert done.returncode == 0, done.stdout
    assert seal.edits(folder) == []
    assert [item.name for item in verify(latest(disk_home)) if item.status == "failed"] == []


def test_two_runs_of_a_target_at_once_have_a_record_each(
    tmp_path: Path, demo_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path)
    trees = home / "work" / "sources"
    shared = trees.readlink()
    trees.unlink()
    trees.mkdir()
    base = phases(demo_run)["source_patch"]["facts"]["base_sha256"][:12]
    for one in (shared / base, *shared.glob("*.json")):
        (trees / one.name).symlink_to(one)
    words = ("run", "--target", "cpu-demo", "--to", "source_patch")
    both = [start_keyelab(home, *words) for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    folders = {text.split()[1] for text in said}
    assert len(folders) == 2
    for folder in folders:
        assert [item.name for item in verify(home / folder) if item.status == "failed"] == []
    assert latest(home).name in {os.path.basename(folder) for folder in folders}  # noqa: PTH119
    assert not list(trees.glob(".*")), "no part of a tree is left"
    monkeypatch.setenv("KEYELAB_HOME", str(home))
    assert list(interrupted.unsealed("cpu-demo")) == []
