"""cpu-demo for real: reuse, verification, and bad input at every phase."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from homes import ROOT, latest, make_home, phases, run_keyelab

from keyelab.record import scratch

pytestmark = pytest.mark.e2e


def test_the_demo_answers_truly_and_verifies(demo_home: Path, demo_run: Path) -> None:
    done = phases(demo_run)
    assert {phase["status"] for phase in done.values()} == {"passed"}
    assert done["video_test"]["facts"]["answer"] == "a red circle moves right"
    assert done["video_test"]["facts"]["coverage"] > 0.9
    assert (
        done["source_patch"]["facts"]["tree_sha256"] != done["source_patch"]["facts"]["base_sha256"]
    )
    result = run_keyelab(demo_home, "verify")
    assert result.returncode == 0, result.stdout
    assert "no server" in run_keyelab(demo_home, "status").stdout


def test_the_second_run_does_not_build(demo_home: Path, demo_run: Path) -> None:
    result = run_keyelab(demo_home, "run")
    assert result.returncode == 0, result.stdout
    assert phases(latest(demo_home))["build"]["facts"]["reused"] is True


def test_stock_papermill_runs_a_phase_on_the_facts_of_the_latest_run(
    demo_home: Path, demo_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYELAB_HOME", str(demo_home))
    output = tmp_path / "out.ipynb"
    subprocess.run(
        [sys.executable, "-m", "papermill", "notebooks/05_build.ipynb", str(output),
         "--engine", "keyelab", "-f", "params/cpu-demo/common.yaml",
         "-f", "params/cpu-demo/build.yaml"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    assert "05_build: passed" in output.read_text()


def test_a_kept_server_is_asked_again_while_the_record_of_its_start_stays_true(
    demo_home: Path, demo_run: Path
) -> None:
    kept = ["--set", "serve.keep_server=true"]
    try:
        result = run_keyelab(demo_home, "run", "--from", "serve", "--to", "serve", *kept)
        assert result.returncode == 0, result.stdout
        first = latest(demo_home)
        facts = phases(first)["serve"]["facts"]
        log = demo_home / facts["log"]
        before = log.stat().st_size
        assert f"pid {facts['pid']} ready" in run_keyelab(demo_home, "status").stdout
        again = run_keyelab(demo_home, "run", "--from", "video_test", *kept)
        assert again.returncode == 0, again.stdout
        assert "to end it: keyelab stop --port" in again.stdout, "it goes on and is named"
        assert log.stat().st_size > before
        for run in (first, latest(demo_home)):
            checked = run_keyelab(demo_home, "verify", str(run))
            assert checked.returncode == 0, checked.stdout
    finally:
        stopped = run_keyelab(demo_home, "stop")
    assert stopped.returncode == 0, stopped.stdout
    assert not scratch.path(first).exists(), "its temporary files go with the server"
    port = int(facts["url"].rsplit(":", 1)[1])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    resumed = run_keyelab(demo_home, "run", "--from", "serve", "--to", "serve")
    assert resumed.returncode == 0, resumed.stdout


@pytest.fixture
def home(tmp_path: Path, demo_run: Path) -> Path:
    """A checkout of its own that starts from the demo's run."""
    home = make_home(tmp_path)
    run = demo_run
    shutil.copytree(run, home / "records" / "cpu-demo" / run.name)
    (home / "records" / "cpu-demo" / "LATEST").write_text(run.name)
    return home


def broken_model(folder: Path) -> list[str]:
    """A model whose header is whole and whose tensors are noise of another size."""
    for name in ("keyelab-tiny-f16.gguf", "mmproj-keyelab-tiny-f16.gguf"):
        shutil.copy(ROOT / "keyelab" / "models" / "demo" / name, folder / name)
    data = bytearray((folder / "keyelab-tiny-f16.gguf").read_bytes())
    place = data.find(b"qwen3vlmoe.attention.head_count")
    data[place : place + 10] = b"qwen3vlmoX"
    (folder / "keyelab-tiny-f16.gguf").write_bytes(data)
    return ["model_fetch.source=path", f"model_fetch.model_dir={folder}"]


def no_video(folder: Path) -> list[str]:
    (folder / "clip.mp4").write_bytes(b"no video at all" * 100)
    return [f"video_test.video={folder / 'clip.mp4'}"]


def pointer(folder: Path) -> list[str]:
    settings = broken_model(folder)
    (folder / "keyelab-tiny-f16.gguf").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 61203283968\n"
    )
    return settings


@pytest.mark.parametrize(
    ("first", "phase", "settings", "sentence"),
    [
        ("env_check", "env_check", ["env_check.min_disk_gib=99999"], "expected at least 99999 GiB"),
        ("model_fetch", "model_fetch", pointer, "61203283968"),
        ("model_fetch", "model_fetch", ["model_fetch.model_sha256=" + "0" * 64], "0000"),
        ("source_patch", "source_patch", ["source_patch.archive_sha256=" + "0" * 64], "0000"),
        ("source_patch", "source_patch", ["source_patch.recipe=k100"], "k100"),
        ("model_fetch", "serve", broken_model, "wrong shape"),
        ("video_test", "video_test", no_video, "clip.mp4"),
    ],
    ids=["disk", "pointer", "model digest", "archive digest", "recipe", "dying server", "video"],
)
def test_bad_input_fails_its_phase_with_one_sentence(
    home: Path,
    tmp_path: Path,
    first: str,
    phase: str,
    settings: list[str] | Callable[[Path], list[str]],
    sentence: str,
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    values = settings(folder) if callable(settings) else settings
    if first == "video_test":
        first = "serve"  # the demo's own server is gone
    words = [word for value in values for word in ("--set", value)]
    result = run_keyelab(home, "run", "--from", first, "--to", phase, *words)
    assert result.returncode == 1, result.stdout
    run = latest(home)
    entry = phases(run)[phase]
    assert entry["status"] == "failed"
    assert sentence in entry["failure"]["message"]
    assert "next: " in entry["failure"]["message"]
    assert entry["failure"]["message"] in (run / "run.json").read_text().replace("\\n", "\n")
    assert "Traceback" not in result.stdout
    assert run_keyelab(home, "verify").returncode == 0
    assert "no server" in run_keyelab(home, "status").stdout


def test_a_taken_port_names_its_holder_and_the_way_out(home: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = run_keyelab(
            home, "run", "--from", "serve", "--to", "serve", "--set", f"serve.port={port}"
        )
    assert result.returncode == 1
    message = phases(latest(home))["serve"]["failure"]["message"]
    assert str(port) in message
    assert "next: " in message
