"""A real llama-server with the demo model, for tests that ask it about videos."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import requests

from keyelab.facts import ServeFacts

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
        "--cache-ram", "0", "-lv", "4", "--port", str(port), *words,
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
