"""Programs: logged, streamed, with a deadline, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from keyelab import shell
from keyelab.errors import CommandFailed, ProgramMissing

PYTHON = sys.executable


def test_output_is_streamed_returned_and_logged_with_its_command(tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "logs" / "x.log"
    result = shell.run([PYTHON, "-c", "print('a'); print('b')"], log=log, on_line=lines.append)
    assert (result.output, lines) == ("a\nb\n", ["a", "b"])
    text = log.read_text()
    assert "print('\"'\"'a'\"'\"')" in text or "print(" in text
    assert text.endswith("a\nb\n# exit status 0\n")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("kill -ABRT $$", "ended with signal SIGABRT"),
        ("exit 3", "ended with exit status 3"),
        ("exit 0", "has ended"),
    ],
)
def test_the_fate_of_a_program_is_known_until_its_parent_asks(code: str, said: str) -> None:
    child = subprocess.Popen(["sh", "-c", f"sleep 0.2; {code}"])
    assert shell.fate(child.pid) == "still runs"
    assert shell.fate(child.pid, wait_s=10) == said
    child.wait()
    assert shell.fate(child.pid) == "is gone"


def test_a_missing_program_is_named_before_anything_runs() -> None:
    with pytest.raises(ProgramMissing, match="'no-such-program' on PATH, found none"):
        shell.run(["no-such-program"])


def test_a_failure_quotes_the_error_line_and_the_log(tmp_path: Path) -> None:
    code = "import sys; print('x.c:1: error: no type'); print('done'); sys.exit(4)"
    with pytest.raises(CommandFailed, match=r"exit status 4: x\.c:1: error: no type") as caught:
        shell.run([PYTHON, "-c", code], log=tmp_path / "x.log")
    assert caught.value.returncode == 4


def test_a_program_that_takes_too_long_is_ended_with_its_children() -> None:
    code = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(50)']);"
        "print(p.pid, flush=True); time.sleep(50)"
    )
    seen: list[str] = []
    with pytest.raises(CommandFailed, match="to end within 2 s"):
        shell.run([PYTHON, "-c", code], timeout_s=2, on_line=seen.append)
    time.sleep(0.2)
    child = int(seen[0])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def test_a_program_gets_no_input_and_dies_with_its_parent(tmp_path: Path) -> None:
    inner = "import time; print('up', flush=True); time.sleep(50)"
    outer = (
        "import os, threading, time; from keyelab import shell;"
        f"shell.run([{PYTHON!r}, '-c', {inner!r}],"
        " on_line=lambda line: os._exit(9))"
    )
    before = set(psutil.pids())
    result = shell.run([PYTHON, "-c", outer], check=False)
    assert result.returncode == 9
    time.sleep(0.5)
    left = [p for p in set(psutil.pids()) - before if _runs(p, "time.sleep(50)")]
    assert left == []


def test_tools_dir_comes_first_on_path(tmp_path: Path) -> None:
    tool = tmp_path / "mytool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    env = shell.environment(str(tmp_path))
    assert shell.find("mytool", env) == tool
    assert shell.run(["mytool"], env=env).output == "mine\n"


def test_secrets_do_not_reach_the_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    shell.run([PYTHON, "-c", "print('token=abcdef123')", "--api-key", "qwertz789"], log=log)
    assert "abcdef123" not in log.read_text()
    assert "qwertz789" not in log.read_text()


def _runs(pid: int, text: str) -> bool:
    try:
        return text in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
