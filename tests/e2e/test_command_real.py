"""The command line against a real llama-server: every word is taken and does what it says."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab.facts import BuildFacts, EnvFacts, FileFact, ModelFacts, SourceFacts
from keyelab.files import project_root
from keyelab.params import Serve
from keyelab.serving import command, flags

pytestmark = pytest.mark.e2e
DEMO = project_root() / "keyelab" / "models" / "demo"
HELP = Path(__file__).parents[1] / "data" / "serving" / "help"


def fact(path: Path) -> FileFact:
    return FileFact(path=str(path), sha256="0" * 64, size_bytes=path.stat().st_size)


@pytest.fixture(scope="module")
def program() -> Path:
    """The llama-server of KEYELAB_BIN, else of the newest build below work/builds/."""
    marks = (project_root() / "work" / "builds").glob("*/result.json")
    found = [mark.parent / "bin" for mark in sorted(marks, key=lambda path: path.stat().st_mtime)]
    named = os.environ.get("KEYELAB_BIN")
    for folder in [Path(named)] if named else found[::-1]:
        server = folder / "llama-server"
        if server.is_file() and server.read_bytes()[:4] == b"\x7fELF":
            return server
    pytest.fail("these tests need a built llama-server: keyelab run --to build")


@pytest.fixture
def plans(program: Path) -> Callable[..., list[command.ServerPlan]]:
    host = EnvFacts(
        os="", kernel="", cpu=None, cores=2, memory_bytes=0, python="", cmake="", ninja="", cxx=None
    )
    model = ModelFacts(
        model=fact(DEMO / "keyelab-tiny-f16.gguf"),
        mmproj=fact(DEMO / "mmproj-keyelab-tiny-f16.gguf"),
        source="packaged", architecture="qwen3vl", projector="", parameters=1,
        quantization="F16", context_tokens=4096, embedding_width=1, chat_template=True,
    )  # fmt: skip
    source = SourceFacts(
        tree="", origin="", version="", recipe="", base_sha256="", tree_sha256="", patches=[]
    )
    build = BuildFacts(
        build_dir="", key="", reused=True, backend="cpu", gpu_targets="", build_type="",
        version="b10019", backends=["CPU"], command="", binaries={"llama-server": fact(program)},
    )  # fmt: skip
    return lambda **given: command.plans(Serve(**given), os.environ, host, model, source, build)


def log_of(plan: command.ServerPlan, log: Path) -> str:
    """Start the plan's server, wait until it is healthy, stop it; its log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as sink:
        server = subprocess.Popen(
            plan.argv(port), env=dict(plan.env), stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        assert healthy(plan.url(port), server), log.read_text()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    return log.read_text()


def healthy(url: str, server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                return bool(json.load(answer)["status"] == "ok")
        except OSError:
            time.sleep(0.1)
    return False


def test_flags_kept_for_the_tests_are_those_of_the_binary(program: Path) -> None:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    number = (said.stdout + said.stderr).split("version: ")[1].split()[0]
    kept = HELP / f"b{number}.txt"
    if not kept.exists():
        pytest.skip(f"no help of b{number} is kept")
    real = flags.offered(program, "real", os.environ).flags
    stored = flags.parse(kept.read_text(), "kept").flags
    assert {n: (f.values, f.choices, f.gone) for n, f in real.items()} == {
        n: (f.values, f.choices, f.gone) for n, f in stored.items()
    }


def test_every_parameter_does_what_it_says(plans: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("planted-key-0123456789\n")
    key.chmod(0o600)
    (plan,) = plans(
        context_tokens=1024, parallel=2, threads=1, cache_type_k="q8_0", cache_type_v="q8_0",
        ubatch_tokens=64, image_max_tokens=32, devices="none", split_mode="layer",
        load_mode="read", api_key_file=str(key), extra_args=["--no-warmup"],
    )  # fmt: skip
    log = log_of(plan, tmp_path / "log")
    said = " ".join(log.split())
    for words in (
        "n_ctx = 1024", "n_slots = 2, n_ctx_slot = 512", "n_ubatch = 64", "K (q8_0)", "V (q8_0)",
        "image_max_pixels: 32768 (custom value)", "mmap = false", "api_keys: ****6789",
    ):  # fmt: skip
        assert words in said, words
    assert "DEPRECATED" not in log
    assert "planted" not in log


def test_nothing_is_shrunk_unasked(plans: Any, tmp_path: Path) -> None:
    assert "fitting params" not in log_of(plans()[0], tmp_path / "off")
    assert "fitting params" in log_of(plans(fit=True)[0], tmp_path / "on")
