"""A recipe that is right for some weights only."""

from __future__ import annotations

import pytest

from keyelab.errors import UsageError
from keyelab.facts import FileFact, ModelFacts, SourceFacts

FLOATS = ["F32", "F16", "BF16"]


@pytest.mark.parametrize(
    ("backend", "weights", "quantization"),
    [
        ("hip", FLOATS, "BF16"),
        ("hip", FLOATS, ""),
        ("hip", ["any"], "Q4_K_M"),
        ("cpu", FLOATS, "Q4_K_M"),
    ],
)
def test_weights_that_are_computed_right_pass(
    backend: str, weights: list[str], quantization: str
) -> None:
    source(weights).require_weights(model(quantization), backend)


@pytest.mark.parametrize(("backend", "quantization"), [("hip", "Q4_K_M"), ("cuda", "Q8_0")])
def test_quantized_weights_are_refused_where_the_recipe_is_not_for_them(
    backend: str, quantization: str
) -> None:
    said = rf"article is for \(F32, F16, BF16\), found {quantization} in models/m.gguf"
    with pytest.raises(UsageError, match=said) as error:
        source(FLOATS).require_weights(model(quantization), backend)
    assert "source_patch.recipe=gcn" in error.value.hint
    assert "BF16.gguf" in error.value.hint


def source(weights: list[str]) -> SourceFacts:
    return SourceFacts(
        tree="", origin="", version="", recipe="article", weights=weights,
        base_sha256="", tree_sha256="", patches=[],
    )  # fmt: skip


def model(quantization: str) -> ModelFacts:
    file = FileFact(path="models/m.gguf", sha256="0" * 64, size_bytes=1)
    return ModelFacts(
        model=file, mmproj=file, source="path", architecture="qwen3vlmoe", projector="",
        parameters=1, quantization=quantization, context_tokens=4096, embedding_width=128,
        chat_template=True,
    )  # fmt: skip
