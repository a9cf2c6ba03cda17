from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import lifecycle, process, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def ensure(plan: Any, env: Any, place: Place) -> lifecycle.Served:
    return lifecycle.ensure(plan, env, place, 20, quiet)


def test_same_server_is_adopted_and_not_started_again(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place)
    again = ensure(make_plan(), faulty(), place)
    assert not first.adopted
    assert again.adopted
    assert again.state == first.state
    assert ensure(make_plan(port=first.state.port), faulty(), place).adopted


def test_other_server_on_the_wanted_port_is_an_error(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place)
    with pytest.raises(KeyelabError, match="another server of keyelab") as error:
        ensure(make_plan(port=first.state.port, alias="other"), faulty(), place)
    assert error.value.hint.startswith("keyelab stop")
    assert state.is_running(first.state)


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
    one = ensure(make_plan(), faulty(), place).state
    two = ensure(make_plan(alias="other"), faulty(), place).state
    assert one.port != two.port
    assert one.log != two.log
    assert len(state.all_states(place.workdir)) == 2


def test_state_of_a_dead_server_is_cleared_and_a_new_one_started(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    first = ensure(make_plan(), faulty(), place).state
    import os

    os.kill(first.pid, signal.SIGKILL)
    while state.is_running(first):
        pass
    second = ensure(make_plan(port=first.port), faulty(), place)
    assert not second.adopted
    assert second.state.pid != first.pid


def test_killed_owner_leaves_a_server_that_is_found_and_adopted(
    make_plan: Any, place: Place, faulty: Any, tmp_path: Path
) -> None:
    plan, env = make_plan(), faulty()
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import pickle, time\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, env, place = pickle.loads({pickle.dumps((plan, env, place))!r})\n"
        "served = lifecycle.ensure(plan, env, place, 20, lambda *_: None)\n"
        "print(served.state.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    process_ = subprocess.Popen([sys.executable, owner], stdout=subprocess.PIPE, text=True)
    assert process_.stdout is not None
    pid = int(process_.stdout.readline())
    process_.kill()
    process_.wait()
    process_.stdout.close()
    (left,) = state.all_states(place.workdir)
    assert left.pid == pid
    assert state.is_running(left)
    served = ensure(plan, env, place)
    assert served.adopted
    assert served.state.pid == pid
    assert process.stop(served.state) == "interrupted"


def test_log_of_a_new_start_begins_anew(make_plan: Any, place: Place, faulty: Any) -> None:
    first = ensure(make_plan(), faulty(log="first start"), place).state
    process.stop(first)
    second = ensure(make_plan(port=first.port), faulty(log="second start"), place).state
    assert second.log == first.log
    assert "first start" not in Path(second.log).read_text()
