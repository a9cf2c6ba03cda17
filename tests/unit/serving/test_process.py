from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, port, process, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def running(make_plan: Any, place: Place, env: Any) -> state.ServerState:
    return lifecycle.ensure(make_plan(), env, place, 20, quiet)


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
    assert process.stop(known) == "interrupted"
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
    assert process.stop(known, grace_s=0.3) == "killed"
    assert not state.is_running(known)


def test_stopping_twice_is_harmless(make_plan: Any, place: Place, faulty: Any) -> None:
    known = running(make_plan, place, faulty())
    process.stop(known)
    assert process.stop(known) == "already gone"


def test_process_that_merely_has_the_pid_is_not_killed(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    known = running(make_plan, place, faulty())
    process.stop(known)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        stale = state.write(known.model_copy(update={"pid": bystander.pid}))
        assert process.stop(stale) == "already gone"
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
