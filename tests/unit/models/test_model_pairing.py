"""Model and projector are proven to be a pair, and a wrong pair says both numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.facts import FileFact
from keyelab.models import pairing
from keyelab.models.fetch import PACKAGED
from keyelab.models.header import read

MakeGguf = Callable[..., Path]


def verdicts(model: Path, mmproj: Path) -> dict[str, Check]:
    return {item.name: item for item in pairing.checks(read(model), read(mmproj))}


def test_the_packaged_pair_fits() -> None:
    found = verdicts(PACKAGED / "keyelab-tiny-f16.gguf", PACKAGED / "mmproj-keyelab-tiny-f16.gguf")
    assert {item.status for item in found.values()} == {"ok"}
    assert found["projector fits the model"].found == "128"


def test_a_wrong_pair_names_both_numbers(text_model: MakeGguf, projector: MakeGguf) -> None:
    item = verdicts(text_model(width=2048), projector(width=3584))["projector fits the model"]
    assert item.status == "failed"
    assert "2048" in item.expected
    assert "3584" in item.found
    assert "same repository" in item.remedy


def test_deepstack_layers_count_as_width(text_model: MakeGguf, projector: MakeGguf) -> None:
    model = text_model(arch="qwen3vlmoe", qwen3vlmoe__n_deepstack_layers=2)
    stacked = projector(deepstack=[True, False, True])
    assert verdicts(model, stacked)["projector fits the model"].found == "192"
    assert verdicts(model, stacked)["projector fits the model"].status == "ok"
    plain = projector(name="plain.gguf", deepstack=[False, False, False])
    assert verdicts(model, plain)["projector fits the model"].status == "failed"


def test_a_width_that_is_not_told_is_unknown(text_model: MakeGguf, projector: MakeGguf) -> None:
    item = verdicts(text_model(), projector(width=None))["projector fits the model"]
    assert (item.status, item.found) == ("unknown", "unknown")


def test_swapped_files_and_two_of_a_kind_are_refused(
    text_model: MakeGguf, projector: MakeGguf
) -> None:
    model, mmproj = read(text_model()), read(projector())
    pairing.require_pair(model, mmproj)
    for first, second in ((mmproj, model), (mmproj, mmproj), (model, model)):
        found = f"found {first.architecture} in .* and {second.architecture} in"
        with pytest.raises(KeyelabError, match=found):
            pairing.require_pair(first, second)


def test_an_unknown_architecture_warns_and_points_at_the_build(
    text_model: MakeGguf, projector: MakeGguf
) -> None:
    found = verdicts(text_model(arch="keye_v2_moe"), projector(kind="keye_v2"))
    for name in ("model architecture", "projector type"):
        assert found[name].status == "warned"
        assert "llama.cpp that knows it" in found[name].remedy
        assert "download" not in found[name].remedy
    assert found["projector fits the model"].status == "ok"


def test_a_projector_without_a_type_fails(text_model: MakeGguf, projector: MakeGguf) -> None:
    item = verdicts(text_model(), projector(kind=None))["projector type"]
    assert (item.status, item.found) == ("failed", "none")


def test_a_model_without_a_chat_template_warns(text_model: MakeGguf, projector: MakeGguf) -> None:
    found = verdicts(text_model(tokenizer__chat_template=None), projector())
    assert found["chat template"].status == "warned"


def test_facts_hold_what_the_headers_say(text_model: MakeGguf, projector: MakeGguf) -> None:
    files = {
        role: FileFact(path=f"{role}.gguf", sha256="0" * 64, size_bytes=1)
        for role in ("model", "mmproj")
    }
    model, mmproj = read(text_model()), read(projector())
    facts = pairing.facts(model, mmproj, files, "path")
    assert (facts.architecture, facts.projector) == ("qwen3moe", "qwen3vl_merger")
    assert (facts.context_tokens, facts.embedding_width) == (4096, 64)
    assert (facts.quantization, facts.parameters) == ("BF16", 1024)
    assert facts.chat_template
    untold = read(text_model(name="untold.gguf", qwen3moe__context_length=None))
    with pytest.raises(KeyelabError, match=r"number qwen3moe.context_length"):
        pairing.rows(untold, mmproj)


def test_the_table_says_unknown_for_what_is_not_told(
    text_model: MakeGguf, projector: MakeGguf
) -> None:
    table = pairing.rows(read(text_model()), read(projector(width=None)))
    by_fact = {row["fact"]: row for row in table}
    assert by_fact["numbers per token"]["projector"] == "writes unknown"
    assert by_fact["parameters"]["model"] == "1,024"


def test_a_part_of_a_split_model_gives_the_command_that_merges(
    text_model: MakeGguf, projector: MakeGguf
) -> None:
    first = text_model(name="keye-00001-of-00003.gguf", split__no=0, split__count=3)
    with pytest.raises(KeyelabError, match="found one of 3 parts") as caught:
        pairing.require_pair(read(first), read(projector()))
    assert "llama-gguf-split --merge" in caught.value.hint
    whole = read(text_model(name="one.gguf", split__no=0, split__count=1))
    pairing.require_pair(whole, read(projector(name="other.gguf")))
