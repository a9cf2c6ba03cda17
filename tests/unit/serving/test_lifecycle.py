from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import lifecycle, port, process, state
from keyelab.serving.lifecycle import Place


def quiet(fraction: float | None, text: str) -> None:
    return None


def ensure(plan: Any, env: Any, place: Place) -> state.ServerState:
    return lifecycle.ensure([replace(plan, env=env)], place, 20, quiet)[0]


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
    with pytest.raises(KeyelabError, match=rf"server of keyelab on it: pid {first.pid}") as error:
        ensure(make_plan(port=first.port, alias="other"), faulty(), place)
    assert f"keyelab stop --workdir {place.workdir} --port {first.port}" in error.value.hint
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
        f"plan, place = pickle.loads({pickle.dumps((replace(plan, env=env), place))!r})\n"
        "(server,) = lifecycle.ensure([plan], place, 20, lambda *_: None)\n"
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
    assert process.stop(left).how == "interrupted"  # also while its parent leaves a zombie
    parent.kill()
    parent.wait()
    parent.stdout.close()


def test_server_gets_the_chosen_environment_and_its_state_holds_no_key(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    env = faulty() | {"LLAMA_ARG_HOST": "0.0.0.0", "LLAMA_API_KEY": "planted-key", "x_token": "t"}
    server = ensure(make_plan(), env, place)
    seen = psutil.Process(server.pid).environ()
    assert {"LLAMA_ARG_HOST", "x_token"}.isdisjoint(seen)
    assert seen["LLAMA_API_KEY"] == "planted-key"
    assert "planted-key" not in Path(server.file).read_text()


def test_log_of_a_new_start_begins_anew(make_plan: Any, place: Place, faulty: Any) -> None:
    first = ensure(make_plan(), faulty(log="first start"), place)
    process.stop(first)
    second = ensure(make_plan(port=first.port), faulty(log="second start"), place)
    assert second.log == first.log
    assert "first start" not in Path(second.log).read_text()


def test_replicas_start_side_by_side_and_are_adopted_together(
    make_plans: Any, place: Place, faulty: Any
) -> None:
    plans = [replace(one, env=faulty(silent_s=1.5)) for one in make_plans(replicas=3)]
    started = time.monotonic()
    servers = lifecycle.ensure(plans, place, 20, quiet)
    assert time.monotonic() - started < 4.5, "one after the other would take longer"
    for kind in ("port", "pid", "log", "file"):
        assert len({getattr(one, kind) for one in servers}) == 3
    os.kill(servers[1].pid, signal.SIGKILL)
    while state.is_running(servers[1]):
        time.sleep(0.01)
    again = lifecycle.ensure(plans, place, 20, quiet)
    assert [again[0].pid, again[2].pid] == [servers[0].pid, servers[2].pid]
    assert again[1].pid != servers[1].pid
    origins = [row["origin"] for row in lifecycle.rows(again, place.run_dir)]
    assert origins == ["new"] * 3
    assert lifecycle.rows(again, place.workdir)[0]["origin"].startswith("adopted from")


def test_one_replica_that_fails_ends_the_new_ones_and_spares_the_adopted(
    make_plans: Any, place: Place, faulty: Any
) -> None:
    plans = [replace(one, env=faulty()) for one in make_plans(replicas=3)]
    (first,) = lifecycle.ensure(plans[:1], place, 20, quiet)
    plans[2] = replace(plans[2], env=faulty(exit=1))
    with pytest.raises(KeyelabError, match="ended with exit status 1"):
        lifecycle.ensure(plans, place, 20, quiet)
    assert state.all_states(place.workdir) == [first]


def test_cards_of_a_running_server_are_refused_across_work_folders(
    make_plan: Any, place: Place, faulty: Any, tmp_path: Path
) -> None:
    card = f"test-{os.getpid()}"
    plan = replace(make_plan(), env=faulty(), cards=(card, f"{card}-b"))
    first = ensure(plan, faulty(), place)
    assert first.cards == [card, f"{card}-b"]
    assert first.before_bytes == {card: None, f"{card}-b": None}
    elsewhere = replace(place, workdir=tmp_path / "elsewhere")
    other = replace(make_plan(alias="other"), cards=(card,))
    with pytest.raises(KeyelabError, match=f"expected card {card} to be free") as error:
        ensure(other, faulty(), elsewhere)
    assert f"pid {first.pid}, port {first.port}, run {shown(place.run_dir)}" in error.value.message
    assert state.all_states(elsewhere.workdir) == []
    os.kill(first.pid, signal.SIGKILL)
    while state.is_running(first):
        time.sleep(0.01)
    second = ensure(other, faulty(), elsewhere)
    assert process.stop(second).memory == "unknown", "nothing here tells what such a card holds"


def test_two_processes_at_once_start_one_server(
    make_plan: Any, place: Place, faulty: Any, tmp_path: Path
) -> None:
    plan = replace(make_plan(port=port.claim("127.0.0.1", 0)), env=faulty(silent_s=1))
    script = tmp_path / "one.py"
    script.write_text(
        "import pickle\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, place = pickle.loads({pickle.dumps((plan, place))!r})\n"
        "(server,) = lifecycle.ensure([plan], place, 20, lambda *_: None)\n"
        "print(server.pid)\n"
    )
    both = [
        subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    pids = [int(one.communicate()[0]) for one in both]
    (known,) = state.all_states(place.workdir)
    assert pids == [known.pid] * 2


def test_starter_killed_while_loading_leaves_a_server_that_the_next_one_adopts(
    make_plan: Any, place: Place, faulty: Any, tmp_path: Path
) -> None:
    plan = replace(make_plan(), env=faulty(silent_s=2))
    script = tmp_path / "one.py"
    script.write_text(
        "import os, pickle, signal\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, place = pickle.loads({pickle.dumps((plan, place))!r})\n"
        "die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "lifecycle.ensure([plan], place, 20, die)\n"
    )
    assert subprocess.run([sys.executable, script], check=False).returncode == -9
    (left,) = state.all_states(place.workdir)
    assert left.ready_s is None
    (server,) = lifecycle.ensure([plan], place, 20, quiet)
    assert server.pid == left.pid
    assert server.ready_s is not None


def test_degraded_server_is_not_adopted(make_plan: Any, place: Place, faulty: Any) -> None:
    first = ensure(make_plan(), faulty(), place)
    with Path(first.log).open("a") as log:
        log.write("Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel k\n")
    with pytest.raises(KeyelabError, match="to be ready, found it degraded: k is started") as error:
        ensure(make_plan(), faulty(), place)
    assert error.value.hint.startswith(f"keyelab stop --port {first.port}")


def test_adopting_is_no_start_and_too_many_starts_are_refused(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    place = replace(place, max_starts_per_hour=1)
    first = ensure(make_plan(), faulty(), place)
    assert ensure(make_plan(), faulty(), place).pid == first.pid
    process.stop(first)
    with pytest.raises(KeyelabError, match="at most 1 starts of a server an hour, found 1"):
        ensure(make_plan(), faulty(), place)
    assert state.all_states(place.workdir) == []


def test_state_that_cannot_be_kept_leaves_no_server(
    make_plan: Any, place: Place, faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def full(server: state.ServerState) -> state.ServerState:
        started.append(server.pid)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state, "write", full)
    with pytest.raises(KeyelabError, match="found: No space left on device"):
        ensure(make_plan(), faulty(), place)
    assert not psutil.pid_exists(started[0])


def test_second_llama_server_that_joins_the_port_is_noticed(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    number = port.claim("127.0.0.1", 0)
    rival = socket.socket()
    try:
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

        def join(fraction: float | None, text: str) -> None:
            with contextlib.suppress(OSError):  # once
                rival.bind(("127.0.0.1", number))
                rival.listen()

        plan = replace(make_plan(port=number), env=faulty(silent_s=1, shared=True))
        with pytest.raises(KeyelabError, match="the kernel gives each client to either") as error:
            lifecycle.ensure([plan], place, 20, join)
    finally:
        rival.close()
    assert f"pid {os.getpid()}" in error.value.message
    assert state.all_states(place.workdir) == []
