"""A real llama-server with the demo model: found, planned, run."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from keyelab.build.result import parse_version
from keyelab.facts import BuildFacts, EnvFacts, FileFact, ModelFacts, ServeFacts, SourceFacts
from keyelab.files import sha256_file
from keyelab.params import Serve
from keyelab.serving import command

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "keyelab" / "models" / "demo"
TILE_PX = 32


def find_server() -> Path:
    """llama-server of KEYELAB_BIN (a folder) or of the newest build below work/builds."""
    named = os.environ.get("KEYELAB_BIN")
    if named:
        found = [Path(named) / "llama-server"]
    else:
        built = ROOT.glob("work/builds/*/bin/llama-server")
        real = [path for path in built if path.read_bytes()[:4] == b"\x7fELF"]  # not the fake one
        found = sorted(real, key=lambda path: path.stat().st_mtime)
    if not found or not found[-1].is_file():
        pytest.fail(
            "no llama-server: set KEYELAB_BIN to the folder that holds it, "
            "or build one first: keyelab run --to build"
        )
    return found[-1]


def file_fact(path: Path) -> FileFact:
    """A file as facts name it."""
    return FileFact(path=str(path), sha256=sha256_file(path), size_bytes=path.stat().st_size)


@functools.cache
def build_facts() -> BuildFacts:
    """What 05_build would leave of that llama-server."""
    server = find_server()
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    version = parse_version(said.stdout + said.stderr)
    assert version, "the version of llama-server can be read"
    return BuildFacts(
        build_dir=str(server.parent.parent), key="0" * 64, reused=True, backend="cpu",
        gpu_targets="", build_type="Release", version=version, backends=["CPU"], command="",
        binaries={"llama-server": file_fact(server)},
    )  # fmt: skip


def model_facts() -> ModelFacts:
    """What 02_model_fetch leaves of the demo model."""
    return ModelFacts(
        model=file_fact(MODELS / "keyelab-tiny-f16.gguf"),
        mmproj=file_fact(MODELS / "mmproj-keyelab-tiny-f16.gguf"),
        source="packaged", architecture="qwen3vlmoe", projector="qwen3vl_merger",
        parameters=1, quantization="F16", context_tokens=4096, embedding_width=128,
        chat_template=True,
    )  # fmt: skip


def plans(
    model: ModelFacts | None = None, env: Mapping[str, str] | None = None, **given: Any
) -> list[command.ServerPlan]:
    """Servers as 06_serve would start them, one a replica; `given` are parameters of serve."""
    host = EnvFacts(
        os="", kernel="", cpu=None, cores=2, memory_bytes=2**33,
        python="", cmake="", ninja="", cxx=None,
    )  # fmt: skip
    source = SourceFacts(
        tree="", origin="", version="", recipe="", base_sha256="", tree_sha256="", patches=[]
    )
    params = Serve(**{"threads": 1, **given})
    known = {**os.environ, **(env or {})}
    return command.plans(params, known, host, model or model_facts(), source, build_facts())


@contextlib.contextmanager
def running(
    folder: Path,
    words: Sequence[str] = ("-np", "1"),
    *,
    context_tokens: int = 4096,
    env: Mapping[str, str] | None = None,
) -> Iterator[ServeFacts]:
    """A server that is ready, as the facts of 06_serve name it; it ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    argv = [
        str(find_server()), "-m", str(MODELS / "keyelab-tiny-f16.gguf"),
        "--mmproj", str(MODELS / "mmproj-keyelab-tiny-f16.gguf"), "-c", str(context_tokens),
        # one thread: two that wait for each other stall where another job has a core
        "--cache-ram", "0", "-t", "1", "-lv", "4", "--port", str(port), *words,
    ]  # fmt: skip
    whole = {**os.environ, **(env or {})}
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=whole)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(url, process, log)
        yield ServeFacts(
            url=url, pid=process.pid, state_file="", log=str(log), alias="keyelab-tiny",
            build_info="", model_path="", context_tokens=context_tokens, slots=1, ready_s=0.0,
            command="",
        )  # fmt: skip
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        with contextlib.suppress(requests.exceptions.ConnectionError):
            if requests.get(url + "/health", timeout=2).ok:
                return
        time.sleep(0.1)
    pytest.fail(f"the server was not ready after 60 s: {log.read_text(errors='replace')[-2000:]}")
