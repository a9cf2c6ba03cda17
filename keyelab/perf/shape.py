"""What a model must move and compute for a token, from the header of its GGUF file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.facts import ServerFact
from keyelab.files import located, shown
from keyelab.perf.depth import flags

_EXPERTS = re.compile(r"_exps\.")
_SHARD = re.compile(r"-00001-of-(\d{5})\.gguf$")


@dataclass(frozen=True)
class Shape:
    """Bytes and operations of one sequence.

    `read_bytes` are the weights that one token reads: all but the rows of the embedding that are
    not its own, and of the experts those that are used. `prefill_flops` are the multiplications and
    additions of a prompt token in its weights (the output layer left out: it runs for the last
    one), `decode_flops` those of a written one. `state_bytes` is what one token leaves in the
    context, all of which every later token reads, and `depth_flops` what it costs each of them.
    """

    architecture: str
    type: str
    weight_bytes: int
    read_bytes: float
    prefill_flops: float
    decode_flops: float
    state_bytes: float | None
    depth_flops: float | None
    experts: int
    experts_used: int

    def step_bytes(self, depth_tokens: float) -> float | None:
        """What writing one token reads at a depth."""
        if self.state_bytes is None:
            return None
        return self.read_bytes + depth_tokens * self.state_bytes

    def step_flops(self, depth_tokens: float) -> float | None:
        """What writing one token computes at a depth."""
        if self.depth_flops is None:
            return None
        return self.decode_flops + depth_tokens * self.depth_flops

    def prompt_flops(self, depth_tokens: float) -> float | None:
        """What reading one token of a prompt computes at a mean depth."""
        if self.depth_flops is None:
            return None
        return self.prefill_flops + depth_tokens * self.depth_flops


def read(path: Path, type_k: str = "f16", type_v: str = "f16") -> Shape:
    """The shape of a model in one file or in shards; raises KeyelabError for what is no model."""
    from gguf import GGUFReader

    files = _shards(path)
    try:
        readers = [GGUFReader(str(file)) for file in files]
    except (OSError, ValueError) as error:
        raise KeyelabError(
            f"expected a GGUF model at {shown(path)}, found {error}", "keyelab run --to model_fetch"
        ) from None
    fields = readers[0].fields
    values = {name: fields[name].contents() for name in fields if not name.startswith("tokenizer.")}
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    names = {str(tensor.name) for tensor in tensors}
    arch = str(values.get("general.architecture", ""))
    count = int(values.get(f"{arch}.expert_count") or 0)
    used = int(values.get(f"{arch}.expert_used_count") or 0)
    read_bytes = flops = output_flops = 0.0
    largest: dict[str, int] = {}
    for tensor in tensors:
        name, kind = str(tensor.name), tensor.tensor_type.name
        largest[kind] = largest.get(kind, 0) + int(tensor.n_elements)
        if name == "token_embd.weight" and "output.weight" in names:
            continue  # one row of it
        share = used / count if count and _EXPERTS.search(name) else 1.0
        read_bytes += share * int(tensor.n_bytes)
        if len(tensor.shape) > 1:
            work = 2 * share * int(tensor.n_elements)
            flops += work
            if name in ("output.weight", "token_embd.weight"):
                output_flops += work
    state = _state(values, arch, type_k, type_v)
    return Shape(
        architecture=arch,
        type=max(largest, key=largest.__getitem__, default=""),
        weight_bytes=sum(int(tensor.n_bytes) for tensor in tensors),
        read_bytes=read_bytes,
        prefill_flops=flops - output_flops,
        decode_flops=flops,
        state_bytes=state and state[0],
        depth_flops=state and state[1],
        experts=count,
        experts_used=used,
    )


def of_server(server: ServerFact) -> Shape:
    """The shape of what a server serves, with the cache types of its command."""
    given = flags(server)
    kinds = (given.get(f"--cache-type-{side}", "f16") for side in "kv")
    return read(located(server.model_path), *kinds)


def _state(
    values: Mapping[str, Any], arch: str, type_k: str, type_v: str
) -> tuple[float, float] | None:
    """Bytes that a token leaves in the context, and operations on them; None for no attention.

    Every layer is taken to look at the whole context, and an indexer's own cache is not counted.
    """
    number = {name: values.get(f"{arch}.{name}") for name in (
        "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length",
    )}  # fmt: skip
    layers, heads = number["block_count"], number["attention.head_count"]
    if not isinstance(layers, int) or not isinstance(heads, int) or not heads:
        return None
    held = number["attention.head_count_kv"] or heads
    per_layer = held if isinstance(held, list) else [held] * layers
    width = int(number["embedding_length"] or 0) // heads
    key = int(number["attention.key_length"] or width)
    value = int(number["attention.value_length"] or width)
    one = key * _bytes_of(type_k) + value * _bytes_of(type_v)
    attending = sum(1 for held in per_layer if held)
    return sum(per_layer) * one, 2.0 * attending * heads * (key + value)


def _bytes_of(kind: str) -> float:
    """Bytes of one value of a cache type such as f16 or q8_0."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind.upper()]]
    return float(size) / float(block)


def _shards(path: Path) -> list[Path]:
    """The files of a model that begins with `path`."""
    found = _SHARD.search(path.name)
    if not found:
        return [path]
    stem = path.name[: found.start()]
    count = int(found[1])
    return [path.with_name(f"{stem}-{n:05d}-of-{found[1]}.gguf") for n in range(1, count + 1)]


def rows(shape: Shape) -> list[dict[str, Any]]:
    """The shape as facts for a table."""
    mib = 1 / 2**20
    state = shape.state_bytes
    doubled = None if not state else math.ceil(shape.read_bytes / state)
    experts = f"{shape.experts_used} of {shape.experts}" if shape.experts else "none"
    return [
        {"fact": "architecture", "value": shape.architecture},
        {"fact": "type of most weights", "value": shape.type},
        {"fact": "experts used", "value": experts},
        {"fact": "weights (MiB)", "value": shape.weight_bytes * mib},
        {"fact": "weights that one token reads (MiB)", "value": shape.read_bytes * mib},
        {"fact": "state of one token (KiB)", "value": state and state / 1024},
        {"fact": "depth at which state is as much as weights (tokens)", "value": doubled},
    ]
