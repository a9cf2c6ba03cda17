"""A depth sweep: the same settings for llama-bench as for the server, rows that can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.facts import ServerFact
from keyelab.perf import depth

LINE = {  # of llama-bench b10019, what is not read left out
    "build_commit": "f0b338198ead", "n_threads": 1, "n_prompt": 0, "n_gen": 16, "n_depth": 512,
    "samples_ns": [1250256, 1001024], "samples_ts": [12797.4, 15983.6],
}  # fmt: skip


def server(command: str) -> ServerFact:
    return ServerFact(
        url="http://127.0.0.1:1", pid=1, state_file="", log="", alias="", build_info="",
        model_path="m.gguf", context_tokens=4096, slots=1, ready_s=1.0, command=command,
    )  # fmt: skip


def test_llama_bench_runs_with_what_the_server_was_started_with() -> None:
    fact = server(
        "bin/llama-server --model m.gguf --flash-attn off --threads 3 --cache-type-k q8_0 "
        "--metrics --device ROCm0,ROCm1 --port 1"
    )
    argv = depth.bench_command(Path("b"), fact, Path("m.gguf"), [0, 512], 32, 5)
    words = " ".join(argv)
    assert "-d 0,512 -r 5 -o jsonl" in words
    assert "-t 3 -fa off -ctk q8_0 -dev ROCm0/ROCm1" in words
    assert depth.flags(fact)["--port"] == "1"
    assert "--metrics" not in depth.flags(fact)


def test_lines_of_llama_bench_become_rows_a_repetition() -> None:
    reading = {**LINE, "n_prompt": 128, "n_gen": 0, "samples_ts": [900.0]}
    output = "\n".join(["warning: no GPU found", json.dumps(LINE), json.dumps(reading)])
    rows = depth.bench_rows(output, "bench.log")
    assert [row["ms_per_token"] for row in rows[:2]] == pytest.approx([0.07814, 0.06256], rel=1e-3)
    assert rows[2]["ms_per_token"] is None
    assert [row["prefill_tps"] for row in rows] == [None, None, 900.0]
    assert [row["depth_tokens"] for row in rows] == [520, 520, 576]
    with pytest.raises(KeyelabError, match="found none"):
        depth.bench_rows("error: failed to load model", "bench.log")


def test_a_depth_needs_room_for_its_answer() -> None:
    assert depth.fitting([0, 2048, 4064, 9000], 32, 4096) == [0, 2048]
    assert depth.fitting([0, 9000], 32, None) == [0, 9000]


def rows(way: str, context: int, *ms: float) -> list[dict[str, Any]]:
    return [
        {"way": way, "context_tokens": context, "depth_tokens": context + 16.0,
         "prompt_tokens": context, "prefill_tps": None, "ms_per_token": one} for one in ms
    ]  # fmt: skip


def test_medians_spread_and_agreement() -> None:
    measured = [
        *rows("http", 0, 1, 9, 2),
        *rows("http", 512, 4, 4),
        *rows("llama-bench", 512, 2, 2),
    ]
    first, second, third = depth.spread(measured)
    assert (first["ms_per_token"], first["ms_per_token (least to most)"]) == (2, "1 to 9, n = 3")
    assert first["prefill_tps"] is None
    assert (second["way"], third["way"]) == ("http", "llama-bench")


def test_two_ways_are_compared_by_their_best_round_at_the_deepest_context() -> None:
    measured = [*rows("http", 512, 4, 9), *rows("http", 2048, 1), *rows("llama-bench", 512, 7, 2)]
    assert depth.agreement(measured) == (512, 2.0)
    assert depth.agreement(rows("http", 0, 1)) is None
