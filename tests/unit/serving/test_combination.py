from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import UsageError
from keyelab.facts import ModelFacts, SourceFacts
from keyelab.params import Serve
from keyelab.serving import combination
from keyelab.serving.combination import Case


@pytest.fixture
def case(model: ModelFacts, source: SourceFacts) -> Any:
    def make(backend: str = "cpu", extra: Any = None, asks: Any = None, **given: Any) -> Case:
        facts = source.model_copy(update=asks or {})
        return Case(Serve(**given), backend, model, facts, extra or {})

    return make


def verdict(rule: Any, case: Case) -> str:
    found = rule(case)
    return found[0] if found else ""


def test_defaults_break_no_rule(case: Any) -> None:
    combination.refuse(case())
    combination.refuse(case(backend="hip"))


@pytest.mark.parametrize(
    ("backend", "kind", "attention", "refused"),
    [
        ("cpu", "q8_0", "auto", False),
        ("cpu", "q8_0", "off", True),
        ("hip", "q8_0", "auto", True),
        ("hip", "q8_0", "on", False),
        ("hip", "bf16", "off", False),
    ],
)
def test_quantized_v_cache_needs_flash_attention(
    case: Any, backend: str, kind: str, attention: str, refused: bool
) -> None:
    found = case(backend=backend, cache_type_v=kind, flash_attention=attention)
    said = verdict(combination.quantized_v_without_attention, found)
    assert ("needs flash attention" in said) is refused


def test_quantized_k_cache_needs_no_flash_attention(case: Any) -> None:
    combination.refuse(case(cache_type_k="q8_0", flash_attention="off"))


def test_recipe_that_turned_flash_attention_off_is_named(case: Any) -> None:
    found = case(
        "hip", None, {"flash_attention": "off"}, split_mode="tensor", flash_attention="off"
    )
    assert "as the recipe article asks for" in verdict(
        combination.tensor_split_without_attention, found
    )


@pytest.mark.parametrize(("attention", "refused"), [("off", True), ("auto", False), ("on", False)])
def test_tensor_split_needs_flash_attention(case: Any, attention: str, refused: bool) -> None:
    found = case(split_mode="tensor", flash_attention=attention)
    assert bool(verdict(combination.tensor_split_without_attention, found)) is refused


def test_row_split_is_refused_with_the_reason(case: Any) -> None:
    assert "needs split buffers" in verdict(combination.row_split, case(split_mode="row"))
    assert not verdict(combination.row_split, case(split_mode="layer"))


@pytest.mark.parametrize("what", ["model", "mmproj"])
def test_missing_file_is_named(case: Any, model: ModelFacts, what: str) -> None:
    path = Path(getattr(model, what).path)
    path.unlink()
    name = {"model": "model", "mmproj": "projector"}[what]
    with pytest.raises(UsageError, match=f"expected the {name} of 02_model_fetch at") as error:
        combination.refuse(case())
    assert "model_fetch" in error.value.hint


@pytest.mark.parametrize(
    ("context", "slots", "refused"),
    [(1023, 4, True), (1024, 4, False), (0, 4, False), (0, 0, True), (0, 257, True)],
)
def test_each_slot_needs_a_step_of_context(
    case: Any, context: int, slots: int, refused: bool
) -> None:
    found = case(context_tokens=context, parallel=slots)
    assert bool(verdict(combination.slots_without_context, found)) is refused


@pytest.mark.parametrize(
    ("ubatch", "extra", "refused"),
    [
        (2048, {}, False),
        (2049, {}, True),
        (4096, {"--batch-size": ["4096"]}, False),
        (512, {"--batch-size": ["256"]}, True),
    ],
)
def test_ubatch_above_the_batch_is_refused(
    case: Any, ubatch: int, extra: dict[str, list[str]], refused: bool
) -> None:
    found = case(extra=extra, ubatch_tokens=ubatch)
    assert bool(verdict(combination.batch_smaller_than_ubatch, found)) is refused


@pytest.mark.parametrize(
    ("port", "replicas", "refused"),
    [(65535, 1, False), (65535, 2, True), (0, 64, False), (-1, 1, True), (65536, 1, True)],
)
def test_every_replica_needs_a_port(case: Any, port: int, replicas: int, refused: bool) -> None:
    found = case(port=port, replicas=replicas)
    assert bool(verdict(combination.replicas_without_ports, found)) is refused
