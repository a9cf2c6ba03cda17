from __future__ import annotations

import json
import re
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
from keyelab.serving import lifecycle, state
from keyelab.serving.lifecycle import Place
from keyelab.serving.probe import KeyRefused
from keyelab.serving.progress import Progress


def quiet(fraction: float | None, text: str) -> None:
    return None


def serve(make_plan: Any, place: Place, env: Any, timeout_s: float = 20) -> state.ServerState:
    plan = replace(make_plan(), env=env)
    return lifecycle.ensure([plan], place, timeout_s, quiet)[0]


def test_early_503_is_loading_and_then_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    said: list[str] = []
    plan = replace(make_plan(), env=faulty(health_503=3))
    (server,) = lifecycle.ensure([plan], place, 20, lambda _, text: said.append(text))
    assert server.ready_s is not None
    assert server.ready_s > 0.3
    assert any("loading model" in text for text in said)


def test_health_alone_is_not_ready(make_plan: Any, place: Place, faulty: Any) -> None:
    quick = serve(make_plan, place, faulty())
    lifecycle.process.stop(quick)
    slow = serve(make_plan, place, faulty(props_503=5))
    assert slow.ready_s is not None
    assert quick.ready_s is not None
    assert slow.ready_s > quick.ready_s + 0.3


def test_server_that_dies_while_loading_tells_its_cause_at_once(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    log = "0.00.004.233 E llama_model_load: tensor data is not within the file bounds"
    started = time.monotonic()
    with pytest.raises(KeyelabError, match="ended with exit status 1 while loading") as error:
        serve(make_plan, place, faulty(exit=1, log=log), 60)
    assert time.monotonic() - started < 10
    assert "not within the file bounds" in error.value.message
    assert "not within the file bounds" in error.value.diagnosis
    assert "model_fetch" in error.value.hint
    assert state.all_states(place.workdir) == []


def test_exit_status_zero_before_ready_is_a_failure_too(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    with pytest.raises(KeyelabError, match="ended with exit status 0 while loading"):
        serve(make_plan, place, faulty(exit=0))


def test_refused_key_ends_the_wait_and_not_the_server(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    started = time.monotonic()
    with pytest.raises(KeyRefused, match="is up and refuses the API key"):
        serve(make_plan, place, faulty(status=401), 60)
    assert time.monotonic() - started < 10
    (left,) = state.all_states(place.workdir)
    assert state.is_running(left)


def late(make_plan: Any, place: Place, env: Any, timeout_s: float) -> KeyelabError:
    with pytest.raises(KeyelabError) as error:
        serve(make_plan, place, env, timeout_s)
    assert state.all_states(place.workdir) == []
    return error.value


@pytest.mark.parametrize("spins", [True, False])
def test_stuck_server_is_stopped_and_its_last_words_and_its_load_are_told(
    make_plan: Any, place: Place, faulty: Any, spins: bool
) -> None:
    error = late(make_plan, place, faulty(silent_s=60, log="fitting params", spins=spins), 1.5)
    said = re.search(r"it is stuck: nothing has moved for 1\.\d s, .*\((.*) cores", error.message)
    assert said
    assert (float(said[1]) > 0.2) is spins
    assert "last line: fitting params; log: " in error.message
    (evidence,) = (place.run_dir / "logs").glob("*-evidence.json")
    assert shown(evidence) in error.message
    found = json.loads(evidence.read_text())
    assert found["log_end"] == ["fitting params"]
    assert found["threads"][0]["state"] in "RS"
    log = evidence.with_name(evidence.name.replace("-evidence.json", ".log"))
    assert shown(log) in [item["file"] for item in found["open_files"]]
    assert "dmesg" in error.hint
    assert "Loading the model stands still" in error.diagnosis


def test_server_that_moves_is_waited_for_beyond_the_standstill(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    server = serve(make_plan, place, faulty(silent_s=3, chatty=True), 1.5)
    assert server.ready_s is not None
    assert server.ready_s > 2.5


def test_server_that_moves_for_ever_is_slow_and_ends_too(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    error = late(make_plan, place, faulty(silent_s=60, chatty=True), 0.7)
    assert "ready within 7 s, it is slow and still loads, something moved 0." in error.message
    assert "evidence: " in error.message
    assert "--set serve.ready_timeout_s=2.1" in error.hint


def test_server_that_cannot_be_killed_is_named_beside_the_reason(
    make_plan: Any, place: Place, faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(server: state.ServerState, grace_s: float = 20.0) -> str:
        raise KeyelabError(f"the server (pid {server.pid}) outlives SIGKILL", "ps")

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle.process, "stop", fail)
        with pytest.raises(KeyelabError, match=r"it is stuck.*and the server \(pid") as error:
            serve(make_plan, place, faulty(silent_s=60), 1)
    assert error.value.hint == "ps"
    assert len(state.all_states(place.workdir)) == 1


def test_memory_that_grows_is_progress_and_a_busy_core_is_none(tmp_path: Path) -> None:
    code = "held = bytearray(2**25) if input() else 0\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        watched = Progress(psutil.Process(child.pid), tmp_path / "none.log")
        while watched.quiet_s() < 0.5:
            time.sleep(0.05)
        before = watched.moved
        assert child.stdin is not None
        child.stdin.write(b"grow\n")
        child.stdin.close()
        deadline = time.monotonic() + 10
        while watched.moved == before and time.monotonic() < deadline:
            watched.quiet_s()
        assert watched.moved > before
        while watched.quiet_s() < 0.5:
            time.sleep(0.05)
        assert float(watched.load().split()[0]) > 0, "it spins, and that is no progress"
    finally:
        child.kill()
        child.wait()
    assert watched.last_line() == "its log cannot be read"


def test_interrupt_while_waiting_leaves_no_server(
    make_plan: Any, place: Place, faulty: Any
) -> None:
    def interrupt(fraction: float | None, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.ensure([replace(make_plan(), env=faulty(silent_s=60))], place, 20, interrupt)
    assert state.all_states(place.workdir) == []


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("E mtmd_get_memory_usage: error: Failed to load CLIP model from x.gguf", "mmproj_file"),
        ("E llama_model_load: error: unsupported model architecture: 'clip'", "swap"),
        ("E llama_model_load: unknown model architecture: 'keye_v3'", "the branch"),
        ("gguf_init_from_file: failed to open GGUF file 'x' (No such file)", "ls -l"),
        ("error: invalid argument: --nope", "mend serve.extra_args: --nope"),
        ("E srv start: couldn't bind HTTP server socket, port: 8082", "keyelab stop"),
        ("E srv load_model: something nobody has listed", "run it by hand"),
    ],
)
def test_what_the_log_says_of_a_death_is_quoted_with_its_remedy(
    make_plan: Any, place: Place, faulty: Any, line: str, remedy: str
) -> None:
    said = line if line[0] != "E" else f"0.00.004.233 {line}"
    error = late(make_plan, place, faulty(exit=1, log=said), 20)
    assert line.removeprefix("E ") in error.message
    assert remedy in error.hint
