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
from keyelab.models.header import Header
from keyelab.models.leftovers import amount

_CONVERT = "convert the model again with a current convert_hf_to_gguf.py"
_OTHER_BUILD = (
    "it needs a llama.cpp that knows it: set source_patch.git_url and git_ref to the model's "
    "branch, or a newer version; the file itself is sound"
)


def require_roles(model: Header, mmproj: Header) -> None:
    """Raise KeyelabError when the two files are swapped or of one kind."""
    if model.projector and not mmproj.projector:
        raise KeyelabError(
            f"expected the text model in model_file, found the projector "
            f"{shown(model.path)} (architecture clip): the two are swapped",
            f"set model_file: {mmproj.path.name}, mmproj_file: {model.path.name}",
        )
    for header, role, expected, right in (
        (model, "model_file", "a text model", not model.projector),
        (mmproj, "mmproj_file", "a projector (architecture clip)", mmproj.projector),
    ):
        if not right:
            raise KeyelabError(
                f"expected {expected} in {role}, found architecture "
                f"{header.architecture or 'unknown'} in {shown(header.path)}",
                f"set model_fetch.{role} to the other file of the pair: ls "
                f"{shown(header.path.parent)}",
            )


def projector_type(mmproj: Header) -> str | None:
    """clip.projector_type, or that of the vision half; None when absent or empty."""
    for key in ("clip.projector_type", "clip.vision.projector_type"):
        value = mmproj.values.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def model_width(model: Header) -> int | None:
    """Numbers per token that the model reads, with its deepstack layers."""
    width = model.number("embedding_length")
    return None if width is None else width * (1 + (model.number("n_deepstack_layers") or 0))


def projector_width(mmproj: Header) -> int | None:
    """Numbers per token that the projector writes, with its deepstack layers."""
    width = mmproj.values.get("clip.vision.projection_dim")
    layers = mmproj.values.get("clip.vision.is_deepstack_layers")
    count = sum(map(bool, layers)) if isinstance(layers, tuple) else 0
    return width * (1 + count) if isinstance(width, int) else None


def checks(model: Header, mmproj: Header) -> list[Check]:
    """Verdicts on the pair, by their headers."""
    from gguf import MODEL_ARCH_NAMES

    read, written = model_width(model), projector_width(mmproj)
    context = model.number("context_length")
    kind = projector_type(mmproj)
    return [
        check(
            "model architecture",
            model.architecture in MODEL_ARCH_NAMES.values(),
            expected="one that the gguf package lists",
            found=model.architecture or "none",
            remedy=_OTHER_BUILD,
            warn=model.architecture is not None,
        ),
        check(
            "projector type",
            kind in _known_projectors(),
            expected="one that the gguf package lists",
            found=kind or "no type",
            remedy=_OTHER_BUILD if kind else "an old converter made it: get or make a newer mmproj",
            warn=kind is not None,
        ),
        check(
            "projector fits the model",
            None if read is None or written is None else read == written,
            expected=f"a projector that writes {read or 'unknown'} numbers per token",
            found=f"{written or 'unknown'}",
            remedy="take model and mmproj from the same repository",
        ),
        check(
            "context length",
            context is not None,
            expected=f"{model.architecture}.context_length in the header",
            found=f"{context} tokens" if context is not None else "none",
            remedy=_CONVERT,
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
    context = model.number("context_length")
    columns = {
        "architecture": (model.architecture, mmproj.architecture),
        "projector type": ("", projector_type(mmproj)),
        "parameters": (f"{model.parameters:,}", f"{mmproj.parameters:,}"),
        "quantization": (model.quantization, mmproj.quantization),
        "weights by type": (_types(model), _types(mmproj)),
        "tensors": (len(model.tensors), len(mmproj.tensors)),
        "context length, tokens": (context, ""),
        "numbers per token": (
            f"reads {model_width(model) or 'unknown'}",
            f"writes {projector_width(mmproj) or 'unknown'}",
        ),
        "chat template": (model.chat_template, ""),
        "file size": (amount(model.size_bytes), amount(mmproj.size_bytes)),
    }
    return [{"fact": f, "model": m, "projector": p} for f, (m, p) in columns.items()]


def facts(model: Header, mmproj: Header, files: dict[str, FileFact], source: str) -> ModelFacts:
    """The facts of a pair; raises KeyelabError when the model does not tell its own geometry."""
    context, width = (model.number(name) for name in ("context_length", "embedding_length"))
    if context is None or width is None or model.quantization is None:
        raise KeyelabError(
            f"expected weights, context_length and embedding_length of {model.architecture} in "
            f"{shown(model.path)}, found {len(model.tensors)} tensors, {context} and {width}",
            _CONVERT,
        )
    return ModelFacts(
        model=files["model"],
        mmproj=files["mmproj"],
        source=source,
        architecture=model.architecture or "",
        projector=projector_type(mmproj) or "",
        parameters=model.parameters,
        quantization=model.quantization,
        context_tokens=context,
        embedding_width=width,
        chat_template=model.chat_template,
    )


def _known_projectors() -> set[str]:
    from gguf import VISION_PROJECTOR_TYPE_NAMES, VisionProjectorType

    named = {value for key, value in vars(VisionProjectorType).items() if not key.startswith("_")}
    return named | set(VISION_PROJECTOR_TYPE_NAMES.values())


def _types(header: Header) -> str:
    total = header.parameters or 1
    return ", ".join(f"{name} {n / total:.1%}" for name, n in header.tensor_types.items())
