from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from keyelab.build.lock import held
from keyelab.errors import KeyelabError


def quiet(fraction: float | None, text: str) -> None:
    return None


def test_second_holder_waits_and_says_for_whom(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    said: list[str] = []
    with held(path, quiet) as descriptor:
        sleeper = subprocess.Popen(["sleep", "1"], pass_fds=[descriptor])
    # this process has let go; the child still holds the lock it inherited
    started = time.monotonic()
    with held(path, lambda _, text: said.append(text), wait_s=20):
        waited = time.monotonic() - started
    sleeper.wait()
    assert waited > 0.3
    assert f"sleep (pid {sleeper.pid})" in said[0]


def test_holder_that_does_not_end_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    script = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    try:
        with pytest.raises(KeyelabError, match=rf"pid {other.pid}"), held(path, quiet, wait_s=0.2):
            pass
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    with held(path, quiet, wait_s=5):
        pass
