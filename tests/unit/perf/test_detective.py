"""Each rule: with its evidence a finding, without it none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from perflog import DATA, tables_of

from keyelab.facts import DeviceFact, EnvFacts, ServerFact
from keyelab.perf import detective, logrules, requests, setuprules
from keyelab.perf.case import Case, Finding
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.shape import Shape

GIB = 2**30
SHAPE = Shape("qwen3moe", "BF16", 57 * GIB, 6e9, 6e9, 6e9, 98304.0, 1e6, 128, 8)


def case(log: Path | list[str], **known: Any) -> Case:
    own = tables_of(log)
    return Case(own, requests.rows(own), **known)


def server(command: str = "llama-server --threads 2", **over: Any) -> ServerFact:
    given: dict[str, Any] = {
        "url": "", "pid": 1, "state_file": "", "log": "", "alias": "", "build_info": "",
        "model_path": "", "context_tokens": 4096, "slots": 1, "ready_s": 1.0, "command": command,
    }  # fmt: skip
    return ServerFact(**{**given, **over})


def host(cores: int = 2, memory_gib: tuple[int, ...] = ()) -> EnvFacts:
    return EnvFacts(
        os="", kernel="", cpu=None, cores=cores, memory_bytes=GIB, python="", cmake="", ninja="",
        cxx=None, devices=[DeviceFact(memory_bytes=gib * GIB) for gib in memory_gib],
    )  # fmt: skip


def test_the_articles_log_alone_gives_three_findings() -> None:
    found = detective.findings(case(ARTICLE_LOG))
    assert [one.rule for one in found] == [
        "decoding slows down with depth",
        "compute graphs are never reused",
        "pictures take the time",
    ]
    assert "232 ms of each token at 13,692 tokens, 77 %" in found[0].cost
    assert "13.4 to 20.4" in found[0].evidence
    assert found[1].cost.startswith("unknown")
    assert all(row["confirm"] and row["change"] for row in detective.rows(found))


@pytest.mark.parametrize("name", ["2023_text", "2024_json", "b11434_jsonl", "cached_prompt"])
def test_without_evidence_there_is_no_advice(name: str) -> None:
    assert detective.findings(case(DATA / f"{name}.log")) == []


SPLITS = ["0.00.100.000 I sched_reserve: graph splits = {}\n",
          "0.01.000.000 I srv load_model: model loaded\n"]  # fmt: skip


def splits(count: int, devices: list[str]) -> Finding | None:
    lines = [line.format(count) for line in SPLITS]
    return setuprules.cpu_fallback(case(lines, server=server(devices=devices)))


def test_more_graph_parts_than_devices_are_a_fallback() -> None:
    found = splits(98, ["ROCm0"])
    assert found is not None
    assert "98 with 1 devices (expected at most 2)" in found.evidence
    assert splits(2, ["ROCm0"]) is None
    assert splits(98, []) is None, "a CPU build falls back to nothing"
    assert setuprules.cpu_fallback(case(SPLITS[1:], server=server(devices=["ROCm0"]))) is None


PROMPT = (
    "0.0{at}.000.000 I slot print_timing: id 0 | task {task} | prompt eval time = {ms:.2f} ms / "
    "{n} tokens ( 1.00 ms per token, 1.00 tokens per second)\n"
    "0.0{at}.000.001 I slot print_timing: id 0 | task {task} | eval time = 100.00 ms / 11 tokens "
    "( 1.00 ms per token, 110.00 tokens per second)\n"
    "0.0{at}.000.002 I slot release: id 0 | task {task} | stop processing: n_tokens = {all}, "
    "truncated = 0\n"
)


def prompts(*ms: float, n: int = 600) -> list[str]:
    return [
        PROMPT.format(at=1 + i, task=i, ms=one, n=n, all=n + 10) for i, one in enumerate(ms)
    ]  # fmt: skip


def test_unquantized_experts_on_a_card() -> None:
    known = case(prompts(6000.0), backend="hip", shape=SHAPE)
    found = setuprules.moe_prompt(known)
    assert found is not None
    assert "best prompt 100 tokens/s" in found.evidence
    for other in (
        replace(known, backend="cpu"),
        replace(known, shape=replace(SHAPE, type="Q4_K")),
        replace(known, shape=replace(SHAPE, experts=0)),
        case(prompts(6000.0, n=100), backend="hip", shape=SHAPE),
    ):
        assert setuprules.moe_prompt(other) is None


def test_cards_that_are_not_needed() -> None:
    held = {"ROCm0": 30000.0, "ROCm1": 28000.0, "ROCm_Host": 100.0}
    facts = server(devices=["ROCm0", "ROCm1"], buffers_mib=held)
    known = case(prompts(1.0), server=facts, host=host(memory_gib=(80, 80)))
    assert setuprules.spread_over_cards(known) is not None
    assert setuprules.spread_over_cards(replace(known, host=host(memory_gib=(48, 48)))) is None
    assert setuprules.spread_over_cards(replace(known, host=host())) is None, "size unknown"


def test_threads_and_memory_nodes() -> None:
    known = case(prompts(1.0), backend="cpu", server=server(), host=host(1), numa_nodes=2)
    assert setuprules.threads(known) is not None
    assert setuprules.threads(replace(known, host=host(2))) is None
    assert setuprules.numa(known) is not None
    assert setuprules.numa(replace(known, numa_nodes=1)) is None
    assert setuprules.numa(replace(known, server=server("llama-server --numa isolate"))) is None


def test_a_first_request_that_warms_up() -> None:
    found = logrules.first_request(case(prompts(3000.0, 1000.0, 1000.0)))
    assert found is not None
    assert found.cost == "2 s, once"
    for ms in ((1500.0, 1000.0, 1000.0), (3000.0, 1000.0), (30.0, 10.0, 10.0)):
        assert logrules.first_request(case(prompts(*ms))) is None


def sweep(per_token: float) -> list[dict[str, Any]]:
    return [
        {"way": "http", "depth_tokens": depth, "ms_per_token": 10 + per_token * depth + wobble}
        for depth, wobble in ((0, 0.0), (1000, 0.1), (2000, -0.1), (3000, 0.1), (4000, 0.0))
    ]


def test_depth_that_costs_more_than_its_bytes() -> None:
    by_bytes = 10 * 98304 / 6e9
    known = case(prompts(1.0), shape=SHAPE, sweep=sweep(10 * by_bytes))
    assert setuprules.grows_beyond_state(known) is not None
    assert setuprules.grows_beyond_state(replace(known, sweep=sweep(by_bytes))) is None
    assert setuprules.grows_beyond_state(replace(known, shape=None)) is None


@pytest.mark.parametrize("rule", [logrules.slots_unused, logrules.cache_saves, logrules.queue_time])
def test_rules_of_the_queue_and_the_cache_see_nothing_in_a_single_slot(
    rule: Callable[[Case], Finding | None],
) -> None:
    assert rule(case(prompts(1.0, 2.0, 3.0))) is None


def test_slots_that_nobody_uses() -> None:
    start = ["0.00.500.000 I srv load_model: initializing, n_slots = 4, n_ctx_slot = 512\n"]
    known = case([*start, *prompts(1.0, 2.0, 3.0)])
    found = logrules.slots_unused(known)
    assert found is not None
    assert "4 slots, 3 requests" in found.evidence


def test_prompts_that_are_saved_while_requests_run() -> None:
    saved = [
        "0.05.000.000 I srv get_availabl: updating prompt cache\n",
        "0.05.090.000 I srv get_availabl: prompt cache update took 90.00 ms\n",
    ]
    found = logrules.cache_saves(case([*prompts(100.0), *saved]))
    assert found is not None
    assert "0.09 s, 45.0 %" in found.cost


def test_requests_that_wait_in_the_two_slot_log() -> None:
    found = logrules.queue_time(case(DATA / "b10019_two_slots.log"))
    assert found is not None
    assert "up to 8.85 s" in found.evidence
