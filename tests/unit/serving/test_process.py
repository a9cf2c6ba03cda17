from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, lock, port, process, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def running(make_plan: Any, place: Place, env: Any) -> state.ServerState:
    return lifecycle.ensure([replace(make_plan(), env=env)], place, 20, quiet)[0]


def test_server_has_its_own_session_and_no_terminal(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    assert os.getsid(known.pid) == known.pid
    assert os.getpgid(known.pid) != os.getpgid(0)
    assert Path(f"/proc/{known.pid}/fd/0").resolve() == Path("/dev/null")


def test_stop_interrupts_first_so_that_the_log_gets_its_end(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    assert process.stop(known).how == "interrupted"
    assert "cleaning up before exit" in Path(known.log).read_text()
    assert state.all_states(place.workdir) == []


def test_stop_waits_until_process_and_port_are_gone(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty(linger_s=0.7))
    started = time.monotonic()
    process.stop(known)
    assert time.monotonic() - started >= 0.7
    assert not state.is_running(known)
    assert port.is_free("127.0.0.1", known.port)


def test_deaf_server_is_killed(make_plan: Any, place: Place, faulty: Any) -> None:
    known = running(make_plan, place, faulty(deaf=True))
    assert process.stop(known, grace_s=0.3).how == "killed"
    assert not state.is_running(known)


def test_stopping_twice_is_harmless(make_plan: Any, place: Place, faulty: Any) -> None:
    known = running(make_plan, place, faulty())
    process.stop(known)
    assert process.stop(known).how == "already gone"


def test_process_that_merely_has_the_pid_is_not_killed(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    process.stop(known)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        stale = state.write(known.model_copy(update={"pid": bystander.pid}))
        assert process.stop(stale).how == "already gone"
        assert bystander.poll() is None
        assert state.all_states(place.workdir) == []
    finally:
        bystander.kill()
        bystander.wait()


def test_program_that_cannot_run_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "llama-server"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    with pytest.raises(KeyelabError, match="expected to start"):
        process.start([str(broken)], os.environ, tmp_path / "x.log")


def test_exit_status_of_a_stranger_is_unknown() -> None:
    assert process.exit_status(1) is None


def test_children_of_a_server_end_with_it(tmp_path: Path) -> None:
    log, number = tmp_path / "x.log", port.claim("127.0.0.1", 0)
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", code]
    pid = process.start(argv, os.environ, log)
    while not log.read_text():
        time.sleep(0.01)
    child = int(log.read_text())
    known = state.ServerState(
        pid=pid,
        argv=argv,
        key="k",
        url="",
        host="127.0.0.1",
        port=number,
        log=str(log),
        started="",
        run_dir="r",
        file=str(tmp_path / "state.json"),
    )
    assert process.stop(known, grace_s=0.5).how == "killed"
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie"


def test_suspended_server_is_woken_to_end_by_itself(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    os.kill(known.pid, signal.SIGSTOP)
    assert process.stop(known).how == "interrupted"


def test_device_memory_that_stays_is_told_and_the_state_is_gone(
    make_plan: Any, place: Place, faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"card": 2**30}
    monkeypatch.setattr(process.memory, "used", lambda cards, env=None: {c: held[c] for c in cards})
    plan = replace(make_plan(), env=faulty(), cards=("card",))
    known = lifecycle.ensure([plan], place, 20, quiet)[0]
    held["card"] = 3 * 2**30
    with pytest.raises(KeyelabError, match=r"has ended \(interrupted\).*card holds 2,048 MiB more"):
        process.stop(known, memory_s=0.1)
    assert state.all_states(place.workdir) == []
    known = lifecycle.ensure([plan], place, 20, quiet)[0]
    assert process.stop(known) == process.Stopped("interrupted", "ok")


def test_log_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyelabError, match="expected to write the server's log at"):
        process.start(["true"], os.environ, tmp_path / "file" / "x.log")


def test_process_that_a_killed_server_has_left_behind_is_told(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    left = known.model_copy(update={"cards": ["x"]})
    with lock.held([lock.card("x")], {"pid": known.pid}) as descriptors:
        child = subprocess.Popen(["sleep", "60"], pass_fds=descriptors)
    with pytest.raises(KeyelabError, match=r"has ended, and something .* holds card-x") as error:
        process.stop(left, grace_s=1)
    assert "fuser -v" in error.value.hint
    child.kill()
    child.wait()
    assert process.stop(left).how == "already gone"
