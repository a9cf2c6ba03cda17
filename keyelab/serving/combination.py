"""Settings that cannot work together: each rule says why before anything is started.

Line numbers are those of llama.cpp b10019; b10502, b11010 and b11434 say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keyelab.errors import UsageError
from keyelab.facts import ModelFacts, SourceFacts
from keyelab.files import located
from keyelab.params import Serve

_FLOATS = ("f32", "f16", "bf16")
_BATCH = 2048  # llama-server's own --batch-size
_CELLS = 256  # a context is counted in steps of so many tokens (llama-context.cpp:262)
_MOST_SLOTS = 256  # LLAMA_MAX_SEQ


@dataclass(frozen=True)
class Case:
    """What is about to be served, and how; `extra` are the flags of extra_args and their values."""

    params: Serve
    backend: str
    model: ModelFacts
    source: SourceFacts
    extra: Mapping[str, list[str]] = field(default_factory=dict)


Verdict = tuple[str, str] | None


def quantized_v_without_attention(case: Case) -> Verdict:
    """llama-context.cpp:3532: no context is made. `auto` may turn out off, and fails then."""
    enough = ("on", "auto") if case.backend == "cpu" else ("on",)
    if case.params.cache_type_v in _FLOATS or case.params.flash_attention in enough:
        return None
    return (
        f"a quantized V cache (serve.cache_type_v={case.params.cache_type_v}) needs flash "
        f"attention, found serve.flash_attention={case.params.flash_attention}"
        + (" (it may turn out off)" if case.params.flash_attention == "auto" else _why_off(case)),
        "set serve.cache_type_v=f16 (a quantized K cache alone saves half as much), or "
        "serve.flash_attention=on where the recipe allows it",
    )


def tensor_split_without_attention(case: Case) -> Verdict:
    """llama-context.cpp:3499-3506: `auto` becomes on, `off` makes no context."""
    if case.params.split_mode != "tensor" or case.params.flash_attention != "off":
        return None
    return (
        "serve.split_mode=tensor needs flash attention, found serve.flash_attention=off"
        + _why_off(case),
        "set serve.split_mode=layer, llama-server's own",
    )


def row_split(case: Case) -> Verdict:
    """ggml-cuda has no split buffers: loading ends in `does not support split buffers`."""
    if case.params.split_mode != "row":
        return None
    return (
        "serve.split_mode=row needs split buffers, which llama.cpp's CUDA and HIP backends do not "
        "have (b10019 and later; before, they held dense weights only, no experts)",
        "set serve.split_mode=layer, llama-server's own",
    )


def file_missing(case: Case) -> Verdict:
    """Model and projector are where 02_model_fetch proved them."""
    for what, file in (("model", case.model.model), ("projector", case.model.mmproj)):
        if not located(file.path).is_file():
            return (
                f"expected the {what} of 02_model_fetch at {file.path}, found no file",
                "keyelab run --from model_fetch",
            )
    return None


def slots_without_context(case: Case) -> Verdict:
    """A slot gets an equal part of the context, and no less than one step of its counting."""
    context, slots = case.params.context_tokens, case.params.parallel
    if not 1 <= slots <= _MOST_SLOTS:
        return (
            f"expected serve.parallel from 1 to {_MOST_SLOTS}, found {slots}",
            "serve.parallel=1 gives one request the whole context",
        )
    if context and context // slots < _CELLS:
        return (
            f"serve.context_tokens={context} leaves {context // slots} tokens to each of {slots} "
            f"slots, and llama.cpp counts in steps of {_CELLS}",
            f"set serve.context_tokens to {slots * 4096}, or serve.parallel=1",
        )
    return None


def batch_smaller_than_ubatch(case: Case) -> Verdict:
    """llama-context.cpp:241 takes the smaller of both, unasked."""
    given = case.extra.get("--batch-size") or [str(_BATCH)]
    batch = int(given[0]) if given[0].isdigit() else _BATCH
    if case.params.ubatch_tokens <= batch:
        return None
    asked = case.params.ubatch_tokens
    return (
        f"serve.ubatch_tokens={asked} is more than a batch holds ({batch} tokens): llama-server "
        "would take the smaller number and say nothing",
        f"lower it, or raise the batch too: serve.extra_args=[--batch-size, '{asked}']",
    )


def replicas_without_ports(case: Case) -> Verdict:
    """Replica i listens on port + i."""
    first, count = case.params.port, case.params.replicas
    if first >= 0 and (not first or first + count - 1 <= 65535):
        return None
    return (
        f"serve.replicas={count} needs the ports {first} to {first + count - 1}, and the last one "
        "is 65535",
        "set serve.port to 0 (free ports) or lower",
    )


RULES: tuple[Callable[[Case], Verdict], ...] = (
    file_missing,
    quantized_v_without_attention,
    tensor_split_without_attention,
    row_split,
    slots_without_context,
    batch_smaller_than_ubatch,
    replicas_without_ports,
)


def refuse(case: Case) -> None:
    """Raise UsageError for the first rule that is broken."""
    for rule in RULES:
        if verdict := rule(case):
            raise UsageError(*verdict)


def _why_off(case: Case) -> str:
    ruled = case.backend != "cpu" and case.source.flash_attention == "off"
    return f", as the recipe {case.source.recipe} asks for" if ruled else ""
