"""A GGUF file with the geometry of Keye-VL-2.0's language part and random weights.

    python tests/gpu/random_model.py OUT.gguf --type BF16            57 GB
    python tests/gpu/random_model.py OUT.gguf --type Q4_K_M          18 GB

For measuring speed only: what it answers means nothing. The values were drawn once from a normal
distribution with a deviation of 0.02 and are repeated from another place for each tensor. Q4_K_M
has the types that llama-quantize of b10019 chooses (src/llama-quant.cpp), with random blocks.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HEADS, KV_HEADS, HEAD, USED = 32, 4, 128, 8
POOL_BYTES = 1 << 26
DEVIATION = 0.02


def tensors(given: argparse.Namespace) -> Iterator[tuple[str, tuple[int, ...], Type]]:
    """(name, shape with the fastest dimension last, type) of every tensor."""
    width, experts, inner, vocabulary = given.width, given.experts, given.inner, given.vocabulary
    small = given.type == "Q4_K_M"
    usual = Type.Q4_K if small else Type.BF16
    yield "token_embd.weight", (vocabulary, width), usual
    yield "output_norm.weight", (width,), Type.F32
    yield "output.weight", (vocabulary, width), Type.Q6_K if small else Type.BF16
    for layer in range(given.layers):
        finer = Type.Q6_K if small and more_bits(layer, given.layers) else usual
        for name, shape, kind in (
            ("attn_norm", (width,), Type.F32),
            ("attn_q", (HEADS * HEAD, width), usual),
            ("attn_k", (KV_HEADS * HEAD, width), usual),
            ("attn_v", (KV_HEADS * HEAD, width), finer),
            ("attn_output", (width, HEADS * HEAD), usual),
            ("attn_q_norm", (HEAD,), Type.F32),
            ("attn_k_norm", (HEAD,), Type.F32),
            ("ffn_norm", (width,), Type.F32),
            ("ffn_gate_inp", (experts, width), Type.F32),
            ("ffn_gate_exps", (experts, inner, width), usual),
            ("ffn_down_exps", (experts, width, inner), finer),
            ("ffn_up_exps", (experts, inner, width), usual),
        ):
            yield f"blk.{layer}.{name}.weight", shape, kind


def more_bits(layer: int, layers: int) -> bool:
    """Whether a mix of types spends more on this layer."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def pool(kind: Type, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """About 64 MB of weights of a type, as bytes (whole blocks)."""
    if kind in (Type.F32, Type.BF16):
        values = rng.standard_normal(POOL_BYTES // 4, dtype=np.float32) * np.float32(DEVIATION)
        if kind == Type.F32:
            return values.view(np.uint8)
        return np.ascontiguousarray(values.view(np.uint16)[1::2]).view(np.uint8)  # the upper half
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (POOL_BYTES // size, size), dtype=np.uint8)
    if kind == Type.Q4_K:  # d, dmin, 12 bytes of scales and minima, 128 of quants
        step = DEVIATION / (32 * 8.1)  # the mean scale, and what its spread adds to 0 … 15
        blocks[:, :4] = np.array([step, step * 7.5], np.float16).view(np.uint8)
    else:  # Q6_K: 128 bytes, 64, 16 signed scales, d
        scales = rng.integers(-16, 17, (len(blocks), 16), dtype=np.int8)
        blocks[:, 192:208] = scales.view(np.uint8)
        blocks[:, 208:] = np.array([DEVIATION / (9.5 * 18.5)], np.float16).view(np.uint8)
    return blocks.reshape(-1)


def header(writer: gguf.GGUFWriter, given: argparse.Namespace) -> None:
    writer.add_block_count(given.layers)
    writer.add_context_length(262_144)
    writer.add_embedding_length(given.width)
    writer.add_feed_forward_length(given.inner)
    writer.add_expert_feed_forward_length(given.inner)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_expert_count(given.experts)
    writer.add_expert_used_count(USED)
    kind = gguf.LlamaFileType
    small = given.type == "Q4_K_M"
    writer.add_file_type(kind.MOSTLY_Q4_K_M if small else kind.MOSTLY_BF16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    words = [*letters, "<|im_end|>", "ab"]
    words += [f"w{number}" for number in range(len(words), given.vocabulary)]
    kinds = [gguf.TokenType.NORMAL] * len(words)
    kinds[256] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(256)
    writer.add_add_bos_token(False)


def write(given: argparse.Namespace) -> int:
    """Write the file; returns its size in bytes."""
    wanted = list(tensors(given))
    writer = gguf.GGUFWriter("", "qwen3moe")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("random weights")
    header(writer, given)
    places: list[tuple[int, int, Type]] = []
    end = 0
    for name, shape, kind in wanted:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        count = int(np.prod(shape)) // block * size
        writer.add_tensor_info(name, shape, np.dtype(np.float32), count, raw_dtype=kind)
        places.append((end, count, kind))
        end += writer.ggml_pad(count, writer.data_alignment)
    writer.write_header_to_file(given.out)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    start = writer.ggml_pad(given.out.stat().st_size, writer.data_alignment)
    rng = np.random.default_rng(20)
    pools = {kind: pool(kind, rng) for kind in sorted({kind for *_, kind in places})}
    with given.out.open("r+b") as file, ThreadPoolExecutor(given.threads) as threads:
        file.truncate(start + end)
        jobs = [
            threads.submit(_fill, file.fileno(), start + offset, count, pools[kind],
                           gguf.GGML_QUANT_SIZES[kind][1] * int(rng.integers(1 << 16)))
            for offset, count, kind in places
        ]  # fmt: skip
        for job in jobs:
            job.result()
    return start + end


def _fill(file: int, offset: int, count: int, source: np.ndarray[Any, Any], first: int) -> None:
    """Write `count` bytes of the pool, from `first` on and then round and round."""
    first %= len(source)
    while count:
        written = os.pwrite(file, source[first : first + count].data, offset)
        offset, count = offset + written, count - written
        first = (first + written) % len(source)


def main(argv: list[str] | None = None) -> None:
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    wanted.add_argument("out", type=Path)
    wanted.add_argument("--type", choices=("BF16", "Q4_K_M"), default="BF16")
    wanted.add_argument("--layers", type=int, default=48)
    wanted.add_argument("--width", type=int, default=2048)
    wanted.add_argument("--experts", type=int, default=128)
    wanted.add_argument("--inner", type=int, default=768, help="width of an expert")
    wanted.add_argument("--vocabulary", type=int, default=151_936)
    wanted.add_argument("--threads", type=int, default=8)
    print(f"{write(wanted.parse_args(argv)):,} bytes")


if __name__ == "__main__":
    main()
