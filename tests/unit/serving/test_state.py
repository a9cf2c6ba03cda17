from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import state
from keyelab.serving.state import ServerState


def made(workdir: Path, pid: int, port: int = 8082, **changes: object) -> ServerState:
    values = {
        "pid": pid,
        "argv": psutil.Process(pid).cmdline(),
        "key": "k",
        "url": f"http://127.0.0.1:{port}",
        "host": "127.0.0.1",
        "port": port,
        "log": "l",
        "started": "2026-01-01T00:00:00Z",
        "run_dir": "r",
        "file": str(state.path(workdir, port)),
    }
    return ServerState.model_validate({**values, **changes})


def test_state_is_written_and_found_again(tmp_path: Path) -> None:
    one = state.write(made(tmp_path, os.getpid(), 9000))
    two = state.write(made(tmp_path, os.getpid(), 10000))
    assert state.all_states(tmp_path) == [one, two]
    state.forget(one)
    assert state.all_states(tmp_path) == [two]


def test_no_server_was_ever_started(tmp_path: Path) -> None:
    assert state.all_states(tmp_path) == []


def test_own_process_runs_and_a_later_one_with_its_pid_does_not(tmp_path: Path) -> None:
    mine = made(tmp_path, os.getpid())
    assert state.is_running(mine)
    assert not state.is_running(mine.model_copy(update={"argv": ["llama-server", "--port", "1"]}))


def test_zombie_does_not_run(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    known = made(tmp_path, child.pid)
    assert state.is_running(known)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not state.is_running(known)
    child.wait()
    assert not state.is_running(known)


def test_state_that_goes_while_it_is_read_counts_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write(made(tmp_path, os.getpid()))
    read = state.read_json

    def stopped_meanwhile(file: Path) -> object:
        file.unlink()
        return read(file)

    monkeypatch.setattr(state, "read_json", stopped_meanwhile)
    assert state.all_states(tmp_path) == []


def test_broken_state_is_named(tmp_path: Path) -> None:
    file = state.path(tmp_path, 1)
    file.parent.mkdir(parents=True)
    file.write_text('{"pid": 1}')
    with pytest.raises(KeyelabError, match="expected a server state in") as error:
        state.all_states(tmp_path)
    assert "rm " in error.value.hint


def test_a_process_in_the_middle_of_its_exec_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = made(tmp_path, os.getpid())
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: [])
    assert state.is_running(server)
