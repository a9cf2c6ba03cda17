"""The projector belongs to the model: what it writes is as wide as what the model reads.

llama.cpp compares the same two numbers when it loads the pair (tools/mtmd/mtmd.cpp, b10019), after
the model has been read.
"""

from __future__ import annotations

from typing import Any

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.facts import FileFact, ModelFacts
from keyelab.files import shown
from keyelab.models.digest import amount
from keyelab.models.header import Header

_OTHER_BUILD = (
    "it needs a llama.cpp that knows it: set source_patch.git_url and git_ref to the model's "
    "branch, or a newer version; the file itself is sound"
)


def require_pair(model: Header, mmproj: Header) -> None:
    """Raise KeyelabError for part of a split model, and for swapped files or two of one kind."""
    parts = model.values.get("split.count", 1)
    if parts != 1:
        raise KeyelabError(
            f"expected one whole model file, found one of {parts} parts in {shown(model.path)}",
            f"llama-gguf-split --merge {shown(model.path)} WHOLE.gguf (from the first part, the "
            "others beside it), and set model_file to the result",
        )
    if model.architecture == "clip" or mmproj.architecture != "clip":
        raise KeyelabError(
            f"expected a text model and a projector (architecture clip), found "
            f"{model.architecture} in {shown(model.path)} and {mmproj.architecture} in "
            f"{shown(mmproj.path)}",
            "set model_file and mmproj_file: are the two swapped?",
        )


def projector_type(mmproj: Header) -> str | None:
    """clip.projector_type, or that of the vision half; None when absent or empty."""
    for key in ("clip.projector_type", "clip.vision.projector_type"):
        value = mmproj.values.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def model_width(model: Header) -> int:
    """Numbers per token that the model reads, with its deepstack layers."""
    layers = model.values.get(f"{model.architecture}.n_deepstack_layers", 0)
    return model.number("embedding_length") * (1 + int(layers))


def projector_width(mmproj: Header) -> int | None:
    """Numbers per token that the projector writes, with its deepstack layers."""
    width = mmproj.values.get("clip.vision.projection_dim")
    layers = mmproj.values.get("clip.vision.is_deepstack_layers", ())
    return width * (1 + sum(layers)) if isinstance(width, int) else None


def checks(model: Header, mmproj: Header) -> list[Check]:
    """Verdicts on the pair, by their headers."""
    from gguf import MODEL_ARCH_NAMES, VISION_PROJECTOR_TYPE_NAMES, VisionProjectorType

    projectors = {*vars(VisionProjectorType).values(), *VISION_PROJECTOR_TYPE_NAMES.values()}
    read, written = model_width(model), projector_width(mmproj)
    known = [
        check(
            name,
            value is not None and value in listed,
            expected="one that the gguf package lists",
            found=value or "none",
            remedy=_OTHER_BUILD,
            warn=value is not None,
        )
        for name, value, listed in (
            ("model architecture", model.architecture, MODEL_ARCH_NAMES.values()),
            ("projector type", projector_type(mmproj), projectors),
        )
    ]
    return [
        *known,
        check(
            "projector fits the model",
            None if written is None else read == written,
            expected=f"a projector that writes {read} numbers per token",
            found=f"{written or 'unknown'}",
            remedy="take model and mmproj from the same repository",
        ),
        check(
            "chat template",
            model.chat_template,
            expected="a template in the model file",
            found="yes" if model.chat_template else "none",
            remedy="name one: serve.extra_args: ['--chat-template', 'chatml']",
            warn=True,
        ),
    ]


def rows(model: Header, mmproj: Header) -> list[dict[str, Any]]:
    """Both headers as one table."""
    columns: dict[str, tuple[Any, Any]] = {
        "architecture": (model.architecture, mmproj.architecture),
        "projector type": ("", projector_type(mmproj)),
        "parameters": (f"{model.parameters:,}", f"{mmproj.parameters:,}"),
        "quantization": (model.quantization, mmproj.quantization),
        "context length, tokens": (model.number("context_length"), ""),
        "numbers per token": (
            f"reads {model_width(model)}",
            f"writes {projector_width(mmproj) or 'unknown'}",
        ),
        "chat template": (model.chat_template, ""),
        "file size": (amount(model.size_bytes), amount(mmproj.size_bytes)),
    }
    return [{"fact": f, "model": m, "projector": p} for f, (m, p) in columns.items()]


def facts(model: Header, mmproj: Header, files: dict[str, FileFact], source: str) -> ModelFacts:
    """The facts of a proven pair."""
    return ModelFacts(
        **files,
        source=source,
        architecture=model.architecture or "",
        projector=projector_type(mmproj) or "",
        parameters=model.parameters,
        quantization=model.quantization or "",
        context_tokens=model.number("context_length"),
        embedding_width=model.number("embedding_length"),
        chat_template=model.chat_template,
    )
