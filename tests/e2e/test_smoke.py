"""The K100_AI path on replayed output: whole runs, and runs that are killed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from homes import latest, make_home, run_keyelab, start_keyelab

from keyelab.serving.state import all_states, is_running

pytestmark = pytest.mark.source


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, llama_source: Path) -> Path:
    """A checkout of its own, whose source archive is already there."""
    return make_home(tmp_path_factory.mktemp("smoke"))


def record(home: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((latest(home, "smoke") / "run.json").read_text())
    return content


def statuses(home: Path) -> list[str]:
    return [phase["status"] for phase in record(home)["phases"]]


def test_all_eight_phases_pass_on_replayed_output(home: Path) -> None:
    done = run_keyelab(home, "run", "--target", "smoke")
    assert done.returncode == 0, done.stdout
    assert set(statuses(home)) <= {"passed", "warned"}
    facts = {phase["phase"]: phase["facts"] for phase in record(home)["phases"]}
    assert facts["env_check"]["toolkit_version"] == "DTK-26.04-DCC2602-0317"
    probe = facts["env_check"]["probe"]
    assert (probe["default_bound_threads"], probe["runs_1024_flag"]) == (256, True)
    assert facts["build"]["backends"] == ["CPU", "HIP"]
    assert "GPU_TARGETS=gfx928" in facts["build"]["command"]
    assert "-isystem" in facts["build"]["command"]
    assert facts["perf_analysis"]["decode_tps"] == pytest.approx(3.44, abs=0.01)
    assert run_keyelab(home, "verify", "--target", "smoke").returncode == 0
    assert "no server" in run_keyelab(home, "status").stdout


def test_a_dry_run_does_nothing(home: Path) -> None:
    before = sorted((home / "work" / "builds").iterdir())
    done = run_keyelab(home, "run", "--target", "smoke", "--dry-run")
    assert done.returncode == 0, done.stdout
    run = home / done.stdout.splitlines()[0].removeprefix("run ")
    phases = json.loads((run / "run.json").read_text())["phases"]
    assert [phase["status"] for phase in phases] == ["skipped"] * 8
    assert latest(home, "smoke") != run, "a dry run is nothing to resume from"
    assert sorted((home / "work" / "builds").iterdir()) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_cancelled_run_ends_its_server_or_the_next_one_names_it(
    home: Path, number: signal.Signals
) -> None:
    process = start_keyelab(home, "run", "--target", "smoke", "--set", "serve.port=0")
    assert process.stdout is not None
    folder = home / process.stdout.readline().split()[1]
    for line in process.stdout:
        if line.startswith("07_video_test ..."):
            break
    states = all_states(home / "work")
    (server,) = [one for one in states if Path(one.run_dir).name == folder.name]
    process.send_signal(number)
    rest = process.stdout.read()
    process.stdout.close()
    run = json.loads((folder / "run.json").read_text())
    assert {phase["status"] for phase in run["phases"][:6]} <= {"passed", "warned"}
    if number == signal.SIGTERM:
        assert process.wait(60) == 130, rest
        assert f"stopped the server on port {server.port}" in rest
        assert run["status"] == "interrupted"
        assert not is_running(server)
        return
    assert process.wait(60) == -signal.SIGKILL
    assert run["status"] == "running", "a killed run is never a passed one"
    assert is_running(server)
    try:
        again = run_keyelab(home, "run", "--target", "smoke", "--to", "serve", "--dry-run")
        assert f"runs on port {server.port}; to end it: keyelab stop" in again.stdout
    finally:
        stopped = run_keyelab(home, "stop", "--port", str(server.port))
    assert "stopped the server" in stopped.stdout
    assert not is_running(server)


@pytest.mark.parametrize(
    ("phase", "pause", "setting"),
    [
        ("build", "FAKE_BUILD_S", "build.cmake_options={A: '1'}"),
        ("serve", "GGML_FAKE_LOAD_S", "serve.port=0"),
    ],
)
def test_a_killed_kernel_exits_138_and_from_resumes(
    home: Path, phase: str, pause: str, setting: str
) -> None:
    words = ["run", "--target", "smoke", "--set", setting]
    if phase == "build":
        words += ["--set", "build.reuse=false"]
    process = start_keyelab(home, *words, **{pause: "30"})
    assert process.stdout is not None
    sign = {"build": "1 of ", "serve": "06_serve load"}[phase]
    for line in process.stdout:
        if sign in line:
            break
    time.sleep(0.5)
    kernels = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "ipykernel_launcher" in " ".join(child.cmdline())
    ]
    assert len(kernels) == 1
    kernels[0].kill()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 138, rest
    run = record(home)
    entry = next(item for item in run["phases"] if item["phase"] == phase)
    assert (run["status"], entry["failure"]["kind"]) == ("failed", "dead-kernel")
    assert run_keyelab(home, "verify", "--target", "smoke").returncode == 0
    assert "no server" in run_keyelab(home, "status").stdout

    resumed = run_keyelab(home, *words, "--from", phase)
    assert resumed.returncode == 0, resumed.stdout
    assert record(home)["resumes"] == run["run_id"]
    assert set(statuses(home)) <= {"passed", "warned"}
