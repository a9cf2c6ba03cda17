from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import greedy
from keyelab.build.answers import Answer
from keyelab.facts import ModelFacts

SERVER = Path(__file__).parents[2] / "data" / "build" / "answering_server.py"


@pytest.fixture
def compare(hip_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path) -> Any:
    """Run the comparison against the stub; keyword arguments are its faults."""

    def run(context_tokens: int = 4096, **faults: Any) -> Any:
        plan = hip_plan(recipe="gcn", flash_attention="auto")
        program = plan.bin_dir / "llama-server"
        program.write_text(f"#!{sys.executable}\n{SERVER.read_text()}")
        program.chmod(0o755)
        facts = model.model_copy(update={"context_tokens": context_tokens})
        env = {**os.environ, "STUB": json.dumps(faults), "LLAMA_ARG_PORT": "1"}
        log = tmp_path / "greedy.log"
        rows, (verdict,) = greedy.run(plan, seen, facts, env, log, quiet)
        gates = Path(plan.params.workdir) / "gates"
        kept = json.loads(next(gates.iterdir()).read_text()) if gates.exists() else None
        return rows, verdict, kept, log

    return run


def test_same_answers_at_four_lengths_pass(compare: Any) -> None:
    rows, verdict, kept, log = compare()
    assert verdict.status == "ok", verdict.found
    assert [(row["tokens"], row["same"]) for row in rows] == [
        (length, True) for length in (512, 1024, 2048, 4096)
    ]
    assert set(rows[0]) == {"tokens", "ROCm0", "CPU", "same", "ROCm0_s", "CPU_s"}
    assert kept is None
    card, cpu = [line for line in log.read_text().splitlines() if line.startswith("--model")]
    assert "--flash-attn auto" in card
    assert ("--device" in card, "--device none" in cpu) == (False, True)


def test_other_answer_at_one_length_fails_with_its_first_difference(compare: Any) -> None:
    rows, verdict, kept, _ = compare(wrong_at=1024, **{"from": 3})
    assert verdict.status == "failed"
    assert verdict.found.startswith("1,024 tokens: token 4 differs")
    assert [row["same"] for row in rows] == [True, False, True, True]
    assert (kept["passed"], kept["recipe"]) == (False, "gcn")
    assert "1,024 tokens" in kept["failing"][0]


def test_difference_where_the_cpu_lost_the_pattern_is_unknown(compare: Any) -> None:
    _, verdict, kept, _ = compare(wrong_at=2048, lost=True)
    assert verdict.status == "unknown"
    assert "does not continue the pattern either" in verdict.found
    assert kept is None


def test_length_above_the_context_is_skipped_and_no_pass(compare: Any) -> None:
    rows, verdict, _, _ = compare(context_tokens=1500)
    assert verdict.status == "unknown"
    assert "2,048 tokens: skipped, the model has 1,500" in verdict.found
    assert [row["same"] for row in rows] == [True, True, "skipped", "skipped"]
    assert compare(context_tokens=100)[1].status == "unknown"


def test_server_that_dies_while_loading_fails_with_its_last_words(compare: Any) -> None:
    _, verdict, _, _ = compare(dies=True)
    assert verdict.status == "failed"
    assert "ended with status 1" in verdict.found
    assert "out of memory" in verdict.found


def test_server_that_dies_at_a_question_fails_with_its_last_words(compare: Any) -> None:
    _, verdict, _, _ = compare(dies_at=1024)
    assert verdict.status == "failed"
    assert "ended with status 134" in verdict.found
    assert "has no device code" in verdict.found


@pytest.mark.parametrize("length", greedy.LENGTHS)
def test_prompt_and_its_continuation_end_one_token_before_the_length(length: int) -> None:
    numbers = [37 * step % 997 for step in range(1, 1025)]
    whole = greedy.prompt(numbers, length) + greedy.continuation(numbers, length)
    assert len(whole) == length - 1
    assert whole == ([*numbers[: length // 4]] * 4)[:-1]


def test_difference_counts_as_far_as_the_cpu_is_certain() -> None:
    def answer(*tokens: int) -> Answer:
        return Answer(tokens, "", 0.0)

    assert greedy.judge(answer(1, 2, 9), answer(1, 2, 3), [1, 2, 3])[0] is False
    assert greedy.judge(answer(1, 2, 9), answer(1, 2, 3), [1, 2, 4])[0] is None
    assert greedy.judge(answer(1, 9, 9), answer(1, 2, 3), [1, 2, 4])[0] is False
    assert greedy.judge(answer(1, 2), answer(1, 2, 3), [1, 2, 3])[0] is False


def test_cpu_build_and_missing_card_are_not_compared(
    make_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path
) -> None:
    none = dataclasses.replace(seen, devices=[])
    gpu = make_plan(backend="hip", gpu_targets="gfx928")
    for plan, what in ((make_plan(), seen), (gpu, none)):
        done = greedy.run(plan, what, model, os.environ, tmp_path / "log", quiet)
        assert done == ([], [])
