from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.serving import lifecycle, process, state, status
from keyelab.serving.lifecycle import Place

BOUNDS = "Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel k please add\n"


@pytest.fixture
def server(make_plan: Any, place: Place, faulty: Any) -> state.ServerState:
    plan = replace(make_plan(), env=faulty())
    return lifecycle.ensure([plan], place, 20, lambda *_: None)[0]


def facts(server: state.ServerState) -> ServeFacts:
    return ServeFacts(
        url=server.url,
        pid=server.pid,
        state_file=server.file,
        log=server.log,
        alias="a",
        build_info="b",
        model_path="m",
        context_tokens=None,
        slots=None,
        ready_s=0.1,
        command="c",
    )


def test_server_that_answers_is_ready(server: state.ServerState, place: Place) -> None:
    assert status.of(server) == status.Status("ready")
    (row,) = status.rows(place.workdir)
    assert (row["port"], row["state"], row["why"]) == (server.port, "ready", "")
    status.require_running(facts(server))


def test_server_that_never_was_ready_is_starting(make_plan: Any, place: Place, faulty: Any) -> None:
    seen = []

    def note(fraction: float | None, text: str) -> None:
        (known,) = state.all_states(place.workdir)
        seen.append(status.of(known).phase)

    plan = replace(make_plan(), env=faulty(silent_s=1))
    lifecycle.ensure([plan], place, 20, note)
    assert seen[0] == "starting"


def test_suspended_server_is_degraded_and_ready_again_when_it_goes_on(
    server: state.ServerState,
) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    found = status.of(server, timeout_s=0.5)
    assert found.phase == "degraded"
    assert found.why == "/health answers nothing within 0.5 s, its process is suspended (SIGSTOP)"
    os.kill(server.pid, signal.SIGCONT)
    assert status.of(server).phase == "ready"


def test_launch_over_its_bounds_degrades_a_server_that_answers(server: state.ServerState) -> None:
    with Path(server.log).open("a") as log:
        log.write("0.01.000.000 W a warning\n")
        log.flush()
        assert status.of(server).phase == "ready"
        log.write(BOUNDS)
    found = status.of(server)
    assert found.phase == "degraded"
    assert "k is started with more threads" in found.why
    with pytest.raises(KeyelabError, match="found it degraded"):
        status.require_running(facts(server))


def test_second_listener_on_the_port_degrades(make_plan: Any, place: Place, faulty: Any) -> None:
    plan = replace(make_plan(), env=faulty(shared=True))
    (server,) = lifecycle.ensure([plan], place, 20, lambda *_: None)
    with socket.socket() as elsewhere, socket.socket() as rival:
        elsewhere.bind(("127.0.0.2", server.port))
        elsewhere.listen()
        assert status.of(server).phase == "ready", "its clients do not reach that address"
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        rival.bind(("127.0.0.1", server.port))
        rival.listen()
        found = status.of(server)
    assert found.phase == "degraded"
    assert f"pid {os.getpid()}" in found.why


def test_log_that_cannot_grow_degrades(
    server: state.ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(free=2**20)
    monkeypatch.setattr(process.shutil, "disk_usage", lambda folder: full)
    found = status.of(server)
    assert found.phase == "degraded"
    assert "its log cannot grow" in found.why
    full.free += 1
    assert status.of(server).phase == "ready"


def test_server_that_was_asked_to_end_is_stopping(server: state.ServerState) -> None:
    assert status.of(server.model_copy(update={"stopping": True})).phase == "stopping"


def test_killed_server_is_stopped_and_its_facts_are_not_used(server: state.ServerState) -> None:
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while state.is_running(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status.of(server).phase == "stopped"
    with pytest.raises(KeyelabError, match=rf"pid {server.pid}, .*found it stopped") as error:
        status.require_running(facts(server), "keyelab run --target x --from serve")
    assert error.value.hint == "keyelab run --target x --from serve"
    process.exit_status(server.pid)
    state.forget(server)
    with pytest.raises(KeyelabError, match="nothing is known"):
        status.require_running(facts(server))
