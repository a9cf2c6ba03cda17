"""08 measures a real server: depths, load, limits, and two runs held against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama import MODELS, find_server, running

from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.perf import client, depth, load, shape, verify
from keyelab.perf.explain import last
from keyelab.perf.requests import rows as request_rows
from keyelab.perf.tables import read_tables
from keyelab.shell import environment

pytestmark = pytest.mark.e2e
DEPTHS, ANSWER, REPEATS = [0, 512, 2048], 16, 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFacts]:
    """A running llama-server with the demo model."""
    model = MODELS / "keyelab-tiny-f16.gguf"
    with running(tmp_path_factory.mktemp("server"), ["-np", "1", "-t", "1"]) as facts:
        command = f"{find_server()} --threads 1 --flash-attn auto"
        yield facts.model_copy(update={"model_path": str(model), "command": command})


@pytest.fixture(scope="module")
def swept(server: ServeFacts) -> list[dict[str, Any]]:
    """A depth sweep through HTTP."""
    return depth.through_http(client.of(server), DEPTHS, ANSWER, REPEATS)


def test_prompts_and_answers_have_exactly_the_length_that_was_asked_for(
    swept: list[dict[str, Any]],
) -> None:
    assert [row["prompt_tokens"] for row in swept] == [1, 512, 2048] * REPEATS
    spread = {row["context_tokens"]: row for row in depth.spread(swept)}
    assert set(spread) == set(DEPTHS)
    assert spread[2048]["ms_per_token"] > spread[0]["ms_per_token"], "state is read, too"


def test_the_servers_log_tells_the_same_speeds(
    server: ServeFacts, swept: list[dict[str, Any]]
) -> None:
    rows = request_rows(last(read_tables([Path(server.log)])))
    for row in swept:
        timings = {
            "prompt_n": row["prompt_tokens"], "predicted_n": ANSWER,
            "predicted_ms": row["ms_per_token"] * (ANSWER - 1),
        }  # fmt: skip
        alike = [
            task for task in rows
            if task["prompt_tokens"] == row["prompt_tokens"]
            and task["decode_ms"] == pytest.approx(timings["predicted_ms"], abs=0.01)
        ]  # fmt: skip
        assert alike, timings


def test_llama_bench_measures_the_same_model_at_the_same_depths(
    server: ServeFacts, swept: list[dict[str, Any]], tmp_path: Path
) -> None:
    bench, model = find_server().with_name("llama-bench"), Path(server.model_path)
    argv = depth.bench_command(bench, server, model, DEPTHS, ANSWER, REPEATS)
    rows = depth.bench(argv, environment(), tmp_path / "bench.log")
    assert len(rows) == 2 * len(DEPTHS) * REPEATS
    assert depth.agreement([*rows, *swept]) is not None
    broken = [*argv[:2], str(tmp_path / "none.gguf"), *argv[3:]]
    with pytest.raises(KeyelabError):
        depth.bench(broken, environment(), tmp_path / "broken.log")


def test_load_of_text_and_chat(server: ServeFacts) -> None:
    link = client.of(server)
    text = client.fixed(link.tokens(64), ANSWER)
    body = {"messages": [{"role": "user", "content": "What is shown?"}]}
    rows = load.sweep(link, "text", [text], client.TEXT_PATH, [1, 3], 2)
    rows += load.sweep(link, "chat", [client.fixed_chat(body, ANSWER)], client.CHAT, [2], 2)
    assert [row["error"] for row in rows] == [""] * 12
    assert {row["tokens"] for row in rows} == {ANSWER}
    told = load.percentiles(rows, ttft_limit_s=60, token_limit_ms=60_000)
    assert [(row["kind"], row["clients"], row["requests"]) for row in told] == [
        ("text", 1, 2), ("text", 3, 6), ("chat", 2, 4),
    ]  # fmt: skip
    for row in told:
        assert 0 < row["first token p50 (ms)"] <= row["whole answer p50 (ms)"]
        assert row["goodput (requests/s)"] > 0
    checks = verify.sweep_checks([], rows)
    assert [item.status for item in checks] == ["ok", "unknown"]


def test_a_prompt_beyond_the_context_is_the_servers_own_words(server: ServeFacts) -> None:
    link = client.of(server)
    assert server.context_tokens is not None
    long = link.ask(client.fixed(link.tokens(server.context_tokens + 10), ANSWER))
    assert "exceeds the available context size" in long.error
    with pytest.raises(KeyelabError, match=f"expected {ANSWER} tokens after a prompt of"):
        depth.through_http(link, [server.context_tokens - 4], ANSWER, 1)


def test_the_state_in_the_header_is_what_the_server_allocates(server: ServeFacts) -> None:
    model = shape.of_server(server)
    log = Path(server.log).read_text()
    stated = next(line for line in log.splitlines() if "KV buffer size" in line)
    mib = float(stated.split("=")[1].split()[0])
    assert server.context_tokens is not None
    assert server.slots is not None
    assert model.state_bytes is not None
    held = model.state_bytes * server.context_tokens * server.slots / 2**20
    assert held == pytest.approx(mib, rel=0.01)
    assert json.dumps(shape.rows(model))
