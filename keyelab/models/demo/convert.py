"""Weights to the two GGUF files that llama-server loads: language model and projector.

Parameters already bear the names and the layout of GGUF tensors, so this needs no converter.
Which keys a file needs: conversion/qwen3vl.py, src/models/qwen3vlmoe.cpp and tools/mtmd/clip.cpp
of llama.cpp b10019.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyelab.errors import KeyelabError
from keyelab.files import write_bytes
from keyelab.models.demo import checkpoint
from keyelab.models.demo.tokenizer import CHAT_TEMPLATE, SPECIAL, Tokenizer

if TYPE_CHECKING:
    from keyelab.models.demo.model import Shape

NAME = "keyelab-tiny-f16.gguf"
_TITLE = "keyelab tiny demo"


def convert(weights: Path, folder: Path) -> tuple[Path, Path]:
    """Write both files into `folder`: the model and the projector (mmproj-…)."""
    found = checkpoint.load(weights)
    from keyelab.models.demo.model import Shape

    shape, tokenizer = Shape.of(found["shape"]), Tokenizer(found["tokenizer"])
    folder.mkdir(parents=True, exist_ok=True)
    tensors = found["model"].items()
    language = _language(shape, tokenizer, _half(tensors, "language."))
    vision = _vision(shape, _half(tensors, "vision."))
    return (
        write_bytes(folder / NAME, language),
        write_bytes(folder / f"mmproj-{NAME}", vision),
    )


def _half(tensors: Iterable[tuple[str, Any]], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix).replace("weight_1", "weight.1"): tensor.float().numpy()
        for name, tensor in tensors
        if name.startswith(prefix)
    }


def _language(shape: Shape, tokenizer: Tokenizer, tensors: dict[str, Any]) -> bytes:
    import gguf

    one = shape.language
    writer = gguf.GGUFWriter("", "qwen3vlmoe")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_block_count(one.layers)
    writer.add_context_length(one.context)
    writer.add_embedding_length(one.width)
    writer.add_feed_forward_length(one.expert_mlp)
    writer.add_expert_feed_forward_length(one.expert_mlp)
    writer.add_head_count(one.heads)
    writer.add_head_count_kv(one.kv_heads)
    writer.add_key_length(one.head)
    writer.add_value_length(one.head)
    writer.add_rope_dimension_sections([*one.sections, 0])
    writer.add_rope_freq_base(one.rope_base)
    writer.add_layer_norm_rms_eps(one.eps)
    writer.add_expert_count(one.experts)
    writer.add_expert_used_count(one.used)
    writer.add_uint32("qwen3vlmoe.n_deepstack_layers", 0)
    _vocabulary(writer, tokenizer)
    return _written(writer, tensors)


def _vocabulary(writer: Any, tokenizer: Tokenizer) -> None:
    import gguf

    tokens = tokenizer.tokens()
    kinds = [
        gguf.TokenType.CONTROL
        if token in SPECIAL
        else gguf.TokenType.UNUSED
        if token.startswith("[PAD")
        else gguf.TokenType.NORMAL
        for token in tokens
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(tokenizer.merges())
    writer.add_eos_token_id(tokenizer.ids["<|im_end|>"])
    writer.add_pad_token_id(tokenizer.ids["<|endoftext|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _vision(shape: Shape, tensors: dict[str, Any]) -> bytes:
    import gguf

    one = shape.vision
    writer = gguf.GGUFWriter("", "clip")
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("qwen3vl_merger")
    writer.add_vision_projection_dim(shape.language.width)
    writer.add_vision_image_size(one.grid * one.patch)
    writer.add_vision_patch_size(one.patch)
    writer.add_vision_embedding_length(one.width)
    writer.add_vision_feed_forward_length(one.mlp)
    writer.add_vision_block_count(one.layers)
    writer.add_vision_head_count(one.heads)
    writer.add_vision_image_mean([0.5, 0.5, 0.5])
    writer.add_vision_image_std([0.5, 0.5, 0.5])
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(2)
    writer.add_vision_attention_layernorm_eps(one.eps)
    writer.add_vision_is_deepstack_layers([False] * one.layers)
    names = {"v.position_embd.weight", "v.patch_embd.bias"}
    assert names <= set(tensors)
    return _written(writer, tensors)


def _written(writer: Any, tensors: dict[str, Any]) -> bytes:
    """The whole file: matrices in F16; norms, biases, positions and the router in F32."""
    import gguf
    import numpy

    writer.add_name(_TITLE)
    writer.add_license("mit")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, tensor in tensors.items():
        exact = tensor.ndim == 1 or "position_embd" in name or "ffn_gate_inp" in name
        writer.add_tensor(name, tensor.astype(numpy.float32 if exact else numpy.float16))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def main(argv: list[str] | None = None) -> int:
    wanted = argparse.ArgumentParser(prog="keyelab.models.demo.convert", description=__doc__)
    wanted.add_argument("weights", type=Path, help="weights.pt of a training run")
    wanted.add_argument("folder", type=Path, help="where the two GGUF files go")
    given = wanted.parse_args(argv)
    try:
        for path in convert(given.weights, given.folder):
            print(f"{path}: {path.stat().st_size:,} bytes")
    except KeyelabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
