"""Measure what each of the article's workarounds costs, with llama-bench and llama-server.

    python tests/gpu/workarounds.py BIN_DIR MODEL.gguf OUT.jsonl CASE... [--deep 16384]

BIN_DIR holds a build of a tree edited by toggles.py; for the case `article` it is one with the
recipe `article`. Each line of OUT is one test: case, model, flash attention, tokens of context
before it, and the samples, tokens/s. Lines are added, so that a run can go on after another.
Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NARROW = {"KEYELAB_NARROW_TOP_K": "1"}
BOTH = ["off", "on"]
# name: (environment, flash attention, is it about sparse attention)
BENCH: dict[str, tuple[dict[str, str], list[str], bool]] = {
    "stock": ({}, BOTH, False),
    "mmf-off": ({"KEYELAB_MMF_OFF": "1"}, ["off"], False),
    "article": ({}, ["off"], False),
    "force-mmq": ({"KEYELAB_FORCE_MMQ": "1"}, ["on"], False),
    "no-graphs": ({"GGML_CUDA_DISABLE_GRAPHS": "1"}, BOTH, False),
    "sparse-card": ({"KEYELAB_SPARSE": "top_k"}, BOTH, True),
    "sparse-cpu": ({"KEYELAB_SPARSE": "top_k", **NARROW}, BOTH, True),
    "sparse-argsort-cpu": ({"KEYELAB_SPARSE": "argsort", **NARROW}, ["off"], True),
}
SLOTS = {"one-slot": ["-np", "1"], "four-slots": ["-np", "4", "-kvu"], "four-apart": ["-np", "4"]}


def bench(given: argparse.Namespace, case: str) -> Iterator[dict[str, Any]]:
    """Decode speed at depths, and for dense attention prefill of 512 tokens too."""
    extra, flash, sparse = BENCH[case]
    deep = given.deep
    depths = (
        [0, 512, deep // 16, deep // 4, deep * 3 // 4]
        if sparse
        else [0, deep // 4, deep // 2, deep]
    )
    argv = [
        str(given.bin / "llama-bench"), "-m", str(given.model), "-o", "jsonl",
        "-n", str(given.answer), "-p", "0" if sparse else "512", "-r", str(given.repeats),
        "-fa", ",".join(flash), "-d", ",".join(map(str, depths)), *given.extra,
    ]  # fmt: skip
    with subprocess.Popen(
        argv, env={**os.environ, **extra}, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if not line.startswith('{"build'):
                continue
            test = json.loads(line)
            yield {
                "case": case,
                "flash_attention": bool(test["flash_attn"]),
                "what": "prefill" if test["n_prompt"] else "decode",
                "tokens": test["n_prompt"] or test["n_gen"],
                "depth_tokens": test["n_depth"],
                "tps": [round(value, 3) for value in test["samples_ts"]],
                "cpu_threads": test["n_threads"],
                "device": test["gpu_info"] or test["cpu_info"],
            }
    if process.returncode:
        raise SystemExit(f"llama-bench ended with status {process.returncode} in case {case}")


def slots(given: argparse.Namespace, case: str) -> Iterator[dict[str, Any]]:
    """Decode speed that one client sees through HTTP, by the server's own clock."""
    from keyelab.perf.client import Client
    from keyelab.perf.depth import through_http

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = SLOTS[case]
    room = (given.deep + given.answer + 64) * (4 if case == "four-apart" else 1)
    argv = [
        str(given.bin / "llama-server"), "-m", str(given.model), "--port", str(port),
        "-c", str(room), "-fa", "on", "--cache-ram", "0", "--no-webui", *words, *given.extra,
    ]  # fmt: skip
    with Path(f"{given.out}.{case}.log").open("w") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        link = Client(f"http://127.0.0.1:{port}")
        _wait(link.url, server)
        depths = [1, given.deep // 4, given.deep // 2, given.deep]
        rows = through_http(link, depths, given.answer, given.repeats)
        for depth in depths:
            mine = [row for row in rows if row["context_tokens"] == depth]
            yield {
                "case": case,
                "flash_attention": True,
                "what": "decode",
                "tokens": given.answer,
                "depth_tokens": depth,
                "tps": [round(1000 / row["ms_per_token"], 3) for row in mine],
            }
    finally:
        server.terminate()
        server.wait(60)


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    import requests

    until = time.monotonic() + 180
    while time.monotonic() < until and server.poll() is None:
        try:
            if requests.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.5)
    raise SystemExit(f"expected {url} to be ready within 180 s, found status {server.poll()}")


def main() -> None:
    wanted = argparse.ArgumentParser()
    wanted.add_argument("bin", type=Path)
    wanted.add_argument("model", type=Path)
    wanted.add_argument("out", type=Path)
    wanted.add_argument("cases", nargs="+", choices=[*BENCH, *SLOTS], metavar="CASE")
    wanted.add_argument("--deep", type=int, default=16_384, help="deepest context, tokens")
    wanted.add_argument("--answer", type=int, default=64, help="tokens decoded")
    wanted.add_argument("--repeats", type=int, default=5)
    given, given.extra = wanted.parse_known_args()
    for number, case in enumerate(given.cases):
        started = time.monotonic()
        for row in (bench if case in BENCH else slots)(given, case):
            row = {"model": given.model.stem, "turn": number, **row}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        print(f"{given.model.stem} {case}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
