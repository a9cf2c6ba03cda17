"""A real llama-server with the packaged demo model: started, proven, adopted, stopped."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama
import psutil
import pytest
import requests
from click.testing import CliRunner
from llama import MODELS, file_fact, model_facts

from keyelab.cli import cli
from keyelab.errors import KeyelabError
from keyelab.serving import (
    attest,
    lifecycle,
    lock,
    observed,
    occupant,
    port,
    probe,
    process,
    state,
    status,
)
from keyelab.serving.command import ServerPlan
from keyelab.serving.lifecycle import Place

pytestmark = pytest.mark.e2e


@pytest.fixture
def make_plan() -> Callable[..., ServerPlan]:
    """The plan of one real server; keyword arguments are serve parameters."""
    return lambda *facts, **given: llama.plans(*facts, **given)[0]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "work", tmp_path / "run", tmp_path / "run" / "logs" / "server.log")
    yield made
    for left in state.all_states(made.workdir):
        process.stop(left)


def ensure(plan: ServerPlan, place: Place) -> state.ServerState:
    return lifecycle.ensure([plan], place, 60, lambda *_: None)[0]


def failure(plan: ServerPlan, place: Place, expected: str) -> KeyelabError:
    """Why the server did not start; in up to three tries, for b10019 may exit before it logs."""
    for _ in range(3):
        with pytest.raises(KeyelabError, match="while loading") as error:
            ensure(plan, place)
        if expected in error.value.message:
            break
    assert expected in error.value.message
    assert state.all_states(place.workdir) == []
    return error.value


def owner(plan: ServerPlan, place: Place, tmp_path: Path, first: str = "") -> subprocess.Popen[str]:
    """Another process that does `first`, ensures the plan, says its server's pid and ends."""
    script = tmp_path / "owner.py"
    script.write_text(
        "import os, pickle, signal\n"
        "from keyelab.serving import lifecycle\n"
        f"plan, place = pickle.loads({pickle.dumps((plan, place))!r})\n"
        f"{first}\n"
        "(server,) = lifecycle.ensure([plan], place, 60, lambda *_: None)\n"
        "print(server.pid, flush=True)\n"
    )
    return subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)


def test_server_is_started_proven_and_answers(make_plan: Any, place: Place) -> None:
    plan = make_plan(alias="two words")
    server = ensure(plan, place)
    seen = observed.look(server, plan.env)
    verdicts = {item.name: item.status for item in attest.checks(plan, server, seen)}
    assert set(verdicts.values()) == {"ok"}
    facts = attest.facts([plan], [server], [seen])
    assert facts.context_tokens == 4096
    assert facts.slots == 1
    question = {"model": "two words", "messages": [{"role": "user", "content": "Hello"}]}
    with requests.Session() as session:
        session.trust_env = False
        url = f"{facts.url}/v1/chat/completions"
        answer = session.post(url, json={**question, "max_tokens": 4}, timeout=60)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] >= 1


def test_log_holds_the_trace_lines_and_stop_leaves_nothing(make_plan: Any, place: Place) -> None:
    server = ensure(make_plan(), place)
    log = Path(server.log)
    assert "system_info" in log.read_text()
    assert process.stop(server).how == "interrupted"
    assert port.is_free("127.0.0.1", server.port)
    assert not state.is_running(server)


def test_killed_owner_leaves_a_server_that_is_adopted(
    make_plan: Any, place: Place, tmp_path: Path
) -> None:
    plan = make_plan()
    die = "lifecycle.ready.wait = lambda *_: os.kill(os.getpid(), signal.SIGKILL)"
    with owner(plan, place, tmp_path, die) as killed:
        assert killed.wait(60) == -signal.SIGKILL
    (left,) = state.all_states(place.workdir)
    assert left.ready_s is None, "it was killed while the server was loading"
    server = ensure(plan, place)
    assert server.pid == left.pid
    assert status.of(server).phase == "ready"


def test_two_processes_at_once_have_one_server(
    make_plan: Any, place: Place, tmp_path: Path
) -> None:
    plan = make_plan(port=port.claim("127.0.0.1", 0))
    both = [owner(plan, place, tmp_path) for _ in range(2)]
    pids = {one.communicate(timeout=60)[0].strip() for one in both}
    (known,) = state.all_states(place.workdir)
    assert pids == {str(known.pid)}


def test_killed_server_frees_its_port_lock_and_is_replaced(make_plan: Any, place: Place) -> None:
    first = ensure(make_plan(), place)
    said = lock.owner(lock.port(first.port))
    assert said is not None
    assert (said["pid"], said["port"]) == (first.pid, first.port)
    os.kill(first.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while state.is_running(first) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert status.of(first).phase == "stopped"
    second = ensure(make_plan(port=first.port), place)
    assert second.pid != first.pid
    assert process.stop(second).how == "interrupted"
    assert lock.owner(lock.port(first.port)) is None


def test_suspended_server_is_degraded_not_adopted_and_can_be_stopped(
    make_plan: Any, place: Place
) -> None:
    server = ensure(make_plan(), place)
    os.kill(server.pid, signal.SIGSTOP)
    assert "SIGSTOP" in status.of(server, timeout_s=1).why
    with pytest.raises(KeyelabError, match="to be ready, found it degraded"):
        ensure(make_plan(), place)
    assert process.stop(server).how == "interrupted"


def test_second_server_that_shares_the_port_is_noticed(
    make_plan: Any, place: Place, tmp_path: Path
) -> None:
    plan = make_plan(extra_args=["--reuse-port"])
    server = ensure(plan, place)
    rival = process.start(plan.argv(server.port), os.environ, tmp_path / "rival.log")
    try:
        deadline = time.monotonic() + 20
        while port.listeners(server.port) == {server.pid} and time.monotonic() < deadline:
            time.sleep(0.1)
        assert port.listeners(server.port) == {server.pid, rival}
        assert f"pid {rival}" in status.of(server).why
    finally:
        os.kill(rival, signal.SIGKILL)
        process.exit_status(rival)
    assert status.of(server).phase == "ready"


def test_other_servers_on_the_wanted_port_are_told_apart(
    make_plan: Any, place: Place, tmp_path: Path
) -> None:
    number = port.claim("127.0.0.1", 0)
    plan = make_plan(port=number)
    env = {"PATH": os.environ["PATH"], "LLAMA_API_KEY": "another-key"}
    serve = [sys.executable, "-m", "http.server", str(number), "--bind", "127.0.0.1"]
    for argv, said in (
        (plan.argv(number), r"llama-server \(pid \d+\), a llama-server that wants an API key"),
        (serve, r"python.* an HTTP server that is no llama-server \(SimpleHTTP"),
    ):
        pid = process.start(argv, env, tmp_path / "other.log")
        try:
            deadline = time.monotonic() + 20
            while probe.ask(occupant.url(plan.params.host, number), "/health").status in (
                None,
                503,
            ):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            with pytest.raises(KeyelabError, match=said) as error:
                ensure(plan, place)
        finally:
            os.kill(pid, signal.SIGKILL)
            process.exit_status(pid)
        assert f"kill {pid}" in error.value.hint
        assert state.all_states(place.workdir) == []


def test_full_disk_for_the_log_is_told_before_the_start_and_while_serving(
    make_plan: Any, place: Place, small_disk: Path
) -> None:
    place = replace(place, log=small_disk / "logs" / "server.log")
    server = ensure(make_plan(), place)
    (small_disk / "junk").write_bytes(bytes(shutil.disk_usage(small_disk).free - 600_000))
    found = status.of(server)
    assert found.phase == "degraded"
    assert "its log cannot grow" in found.why
    assert process.stop(server).how == "interrupted"
    with pytest.raises(KeyelabError, match=r"server's log at .* No space left on device"):
        ensure(make_plan(), place)
    assert state.all_states(place.workdir) == []


def test_port_stolen_between_claim_and_start_is_told_with_the_thief(
    make_plan: Any, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = port.claim("127.0.0.1", 0)
    thief = [sys.executable, "-m", "http.server", str(number), "--bind", "127.0.0.1"]
    start, pids = process.start, []

    def late(*given: Any) -> int:
        pids.append(start(thief, os.environ, tmp_path / "thief.log"))
        while not port.listeners(number):
            time.sleep(0.05)
        return start(*given)

    monkeypatch.setattr(process, "start", late)
    with pytest.raises(KeyelabError, match="ended with exit status 1 while loading") as error:
        ensure(make_plan(port=number), place)
    os.kill(pids[0], signal.SIGKILL)
    process.exit_status(pids[0])
    assert f"(pid {pids[0]}), an HTTP server that is no llama-server" in error.value.message
    assert f"kill {pids[0]}" in error.value.hint
    assert state.all_states(place.workdir) == []


def test_server_that_is_suspended_while_loading_is_stopped_with_evidence(
    make_plan: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = process.start

    def suspended(*given: Any) -> int:
        pid = start(*given)
        os.kill(pid, signal.SIGSTOP)
        return pid

    monkeypatch.setattr(process, "start", suspended)
    with pytest.raises(KeyelabError, match="it is stuck: nothing has moved for 1"):
        lifecycle.ensure([make_plan()], place, 1, lambda *_: None)
    (kept,) = (place.run_dir / "logs").glob("*-evidence.json")
    assert json.loads(kept.read_text())["threads"][0]["state"] == "T"
    assert state.all_states(place.workdir) == []


def test_dead_proxy_of_the_environment_does_no_harm(
    make_plan: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ensure(make_plan(), place)
    assert status.of(server).phase == "ready"
    assert probe.proxied(server.url) == "nothing"


def test_replicas_run_side_by_side_and_the_command_line_sees_and_stops_them(
    place: Place,
) -> None:
    servers = lifecycle.ensure(llama.plans(replicas=2), place, 60, lambda *_: None)
    assert len({one.port for one in servers}) == 2
    words = ["--workdir", str(place.workdir)]
    listed = CliRunner().invoke(cli, ["status", *words, "--json"])
    assert [one["state"] for one in json.loads(listed.stdout)["servers"]] == ["ready"] * 2
    assert listed.exit_code == 0
    os.kill(servers[0].pid, signal.SIGKILL)
    process.exit_status(servers[0].pid)
    listed = CliRunner().invoke(cli, ["status", *words])
    assert f"pid {servers[0].pid} stopped" in listed.stdout
    assert listed.exit_code == 1
    stopped = CliRunner().invoke(cli, ["stop", *words, "--port", str(servers[1].port)])
    assert stopped.stdout == f"stopped the server on port {servers[1].port} (interrupted)\n"
    stopped = CliRunner().invoke(cli, ["stop", *words])
    assert stopped.stdout == f"stopped the server on port {servers[0].port} (already gone)\n"
    assert state.all_states(place.workdir) == []


def test_key_of_a_file_serves_and_stands_nowhere(
    make_plan: Any, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "key-of-the-environment")
    file = tmp_path / "key.txt"
    file.write_text("key-of-the-file-and-more\n")
    file.chmod(0o600)
    server = ensure(make_plan(api_key_file=str(file)), place)
    assert probe.get(server.url, "/props", server.api_key_file) is not None
    with pytest.raises(probe.KeyRefused):
        probe.get(server.url, "/props")
    environ = psutil.Process(server.pid).environ()
    assert "key-of-the-environment" not in environ.values(), "it would be accepted as well"
    process.stop(server)
    for found in [place.workdir, place.run_dir]:
        for path in found.rglob("*"):
            assert not path.is_file() or b"key-of-the-" not in path.read_bytes()


def test_truncated_model_is_told_at_once(make_plan: Any, place: Place, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((MODELS / "keyelab-tiny-f16.gguf").read_bytes()[:200_000])
    plan = make_plan(model_facts().model_copy(update={"model": file_fact(cut)}))
    assert "model_fetch" in failure(plan, place, "not within the file bounds").hint


def test_model_in_the_projectors_place_is_told(make_plan: Any, place: Place) -> None:
    model = model_facts()
    plan = make_plan(model.model_copy(update={"mmproj": model.model}))
    assert "mmproj_file" in failure(plan, place, "Failed to load CLIP model").hint


def test_port_of_another_work_folder_is_refused_before_the_start(
    make_plan: Any, place: Place
) -> None:
    first = ensure(make_plan(), place)
    elsewhere = Place(place.workdir / "other", place.run_dir, place.log)
    with pytest.raises(KeyelabError, match=rf"a server of keyelab on it: pid {first.pid}"):
        ensure(make_plan(port=first.port), elsewhere)
    assert state.all_states(elsewhere.workdir) == []
