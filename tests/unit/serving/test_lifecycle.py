from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, process, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def ensure(plan: Any, env: Any, place: Place) -> state.ServerState:
    return lifecycle.ensure(plan, env, place, 20, quiet)


def test_same_server_is_adopted_and_not_started_again(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place)
    assert ensure(make_plan(), faulty(), place) == first
    assert ensure(make_plan(port=first.port), faulty(), place) == first


def test_other_server_on_the_wanted_port_is_an_error(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place)
    with pytest.raises(KeyelabError, match=rf"to be free, found .*\(pid {first.pid}\)") as error:
        ensure(make_plan(port=first.port, alias="other"), faulty(), place)
    assert f"keyelab stop --port {first.port}" in error.value.hint
    assert state.is_running(first)


def test_foreign_program_on_the_wanted_port_is_named(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.getsockname()[1]
        with pytest.raises(KeyelabError, match=rf"TCP port {number} on 127\.0\.0\.1"):
            ensure(make_plan(port=number), faulty(), place)
    assert state.all_states(place.workdir) == []


def test_different_servers_get_their_own_port_state_and_log(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    one = ensure(make_plan(), faulty(), place)
    two = ensure(make_plan(alias="other"), faulty(), place)
    assert one.port != two.port
    assert one.log != two.log
    assert len(state.all_states(place.workdir)) == 2


def test_state_of_a_dead_server_is_cleared_and_a_new_one_started(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place)
    os.kill(first.pid, signal.SIGKILL)
    while state.is_running(first):
        pass
    second = ensure(make_plan(port=first.port), faulty(), place)
    assert second.pid != first.pid


@pytest.mark.parametrize("killed", [True, False])
def test_server_of_another_process_is_found_adopted_and_stopped(
    make_plan: Any, place: Place, faulty: Any, tmp_path: Path, killed: bool
) -> None:
    plan, env = make_plan(), faulty()
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import pickle, time\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, env, place = pickle.loads({pickle.dumps((plan, env, place))!r})\n"
        "server = lifecycle.ensure(plan, env, place, 20, lambda *_: None)\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, owner], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if killed:
        parent.kill()
        parent.wait()
    (left,) = state.all_states(place.workdir)
    assert left.pid == pid
    assert ensure(plan, env, place).pid == pid
    assert process.stop(left) == "interrupted"  # also while its parent leaves a zombie
    parent.kill()
    parent.wait()
    parent.stdout.close()


def test_hidden_flags_of_the_environment_are_dropped(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    env = faulty() | {"LLAMA_ARG_HOST": "0.0.0.0", "LLAMA_API_KEY": "k"}
    server = ensure(make_plan(), env, place)
    seen = psutil.Process(server.pid).environ()
    assert "LLAMA_ARG_HOST" not in seen
    assert seen["LLAMA_API_KEY"] == "k"


def test_log_of_a_new_start_begins_anew(make_plan: Any, place: Place, faulty: Any) -> None:
    first = ensure(make_plan(), faulty(log="first start"), place)
    process.stop(first)
    second = ensure(make_plan(port=first.port), faulty(log="second start"), place)
    assert second.log == first.log
    assert "first start" not in Path(second.log).read_text()
