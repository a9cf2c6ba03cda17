"""What a model moves and computes, and how near a measured speed comes to the machine's roofs."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from keyelab.errors import KeyelabError
from keyelab.perf import limits, machine
from keyelab.perf.machine import Machine, given
from keyelab.perf.shape import Shape, read, rows

ROOT = Path(__file__).parents[3]
EXPERTS, USED, WIDTH, VOCABULARY = 8, 2, 64, 100


def write(path: Path, tied: bool = False, per_layer: bool = False) -> Path:
    """Two layers: attention of 4 heads and 2 KV heads of 16, and experts."""
    writer = gguf.GGUFWriter(str(path), "qwen3moe")
    writer.add_block_count(2)
    writer.add_embedding_length(WIDTH)
    writer.add_head_count(4)
    writer.add_head_count_kv([2, 0] if per_layer else 2)
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    half = np.float16
    writer.add_tensor("token_embd.weight", np.zeros((VOCABULARY, WIDTH), half))
    if not tied:
        writer.add_tensor("output.weight", np.zeros((VOCABULARY, WIDTH), half))
    for layer in range(2):
        writer.add_tensor(f"blk.{layer}.attn_q.weight", np.zeros((64, WIDTH), half))
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.zeros(WIDTH, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_up_exps.weight", np.zeros((EXPERTS, 32, WIDTH), half))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_only_the_experts_that_are_used_are_read(tmp_path: Path) -> None:
    shape = read(write(tmp_path / "m.gguf"))
    each = 2 * 64 * WIDTH + 4 * WIDTH + 2 * 32 * WIDTH * USED  # q, norm, two experts
    output = 2 * VOCABULARY * WIDTH
    assert shape.read_bytes == 2 * each + output
    assert shape.weight_bytes == 2 * (2 * 64 * WIDTH + 4 * WIDTH + 2 * 32 * WIDTH * EXPERTS) + (
        2 * output
    )
    layers = 2 * 2 * (64 * WIDTH + 32 * WIDTH * USED)
    assert (shape.prefill_flops, shape.decode_flops) == (layers, layers + 2 * VOCABULARY * WIDTH)
    assert (shape.type, shape.experts, shape.experts_used) == ("F16", EXPERTS, USED)


def test_state_follows_the_cache_types_and_layers_without_attention(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    assert read(path).state_bytes == 2 * 2 * (16 + 16) * 2
    assert read(path, "q8_0").state_bytes == pytest.approx(2 * 2 * (16 * 34 / 32 + 16 * 2))
    shape = read(write(tmp_path / "l.gguf", per_layer=True))
    assert (shape.state_bytes, shape.depth_flops) == (128, 2 * 4 * 32)
    assert shape.step_bytes(1000) == shape.read_bytes + 128_000


def test_tied_embeddings_are_the_output_layer(tmp_path: Path) -> None:
    tied, apart = read(write(tmp_path / "t.gguf", tied=True)), read(write(tmp_path / "a.gguf"))
    assert tied.read_bytes == apart.read_bytes
    assert tied.decode_flops == apart.decode_flops


def test_the_demo_models_shape_is_read_from_its_own_header() -> None:
    path = next((ROOT / "keyelab" / "models" / "demo").glob("keyelab-tiny*.gguf"))
    shape = read(path)
    assert 0 < shape.read_bytes <= shape.weight_bytes < path.stat().st_size
    assert {row["fact"] for row in rows(shape)} >= {"experts used", "state of one token (KiB)"}


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for content in (None, b"version https://git-lfs.github.com/spec/v1\n" * 3):
        if content:
            path.write_bytes(content)
        with pytest.raises(KeyelabError, match="expected a GGUF model"):
            read(path)
    with pytest.raises(KeyelabError, match="expected a GGUF model"):
        read(tmp_path / "m-00001-of-00002.gguf")


SHAPE = Shape("a", "F16", 8_000_000, 2_000_000.0, 1_500_000.0, 2_000_000.0, 1000.0, 4000.0, 8, 2)


def row(**over: float | None) -> dict[str, object]:
    return {
        "way": "http", "context_tokens": 0, "depth_tokens": 0.0, "prompt_tokens": None,
        "prefill_tps": None, "ms_per_token": 1.0, **over,
    }  # fmt: skip


def test_decoding_is_held_against_memory() -> None:
    (point,) = limits.points(SHAPE, given(8, 1), [row()])
    assert (point.bound, point.intensity) == ("memory", 1.0)
    assert point.fraction == pytest.approx(0.25)  # 2 MB in 1 ms of 8 GB/s
    (deep,) = limits.points(SHAPE, given(8, 1), [row(depth_tokens=2000.0)])
    assert deep.fraction == pytest.approx(0.5)


def test_a_prompt_is_held_against_arithmetic() -> None:
    measured = row(ms_per_token=None, prompt_tokens=1000, prefill_tps=10_000.0)
    (point,) = limits.points(SHAPE, given(80, 0.1), [measured])
    assert point.bound == "arithmetic"
    assert point.flops_per_s == pytest.approx((1_500_000 + 500 * 4000) * 10_000)
    assert point.fraction == pytest.approx(0.35)


def test_unknown_roofs_give_no_fraction() -> None:
    (point,) = limits.points(SHAPE, given(0, 0), [row()])
    assert (point.bound, point.fraction) == ("unknown", None)
    assert limits.rows([point])[0]["reached (%)"] is None
    (alone,) = limits.points(SHAPE, given(8, 0), [row()])
    assert alone.bound == "memory"


def test_a_machine_is_measured_on_a_cpu_only(tmp_path: Path) -> None:
    log = tmp_path / "machine.log"
    assert machine.roofs("hip", "1", 1e6, (0.0, 0.0), log) == given(0, 0)
    assert machine.roofs("cpu", "1", 1e6, (900.0, 0.0), log).memory_bytes_per_s == 9e11
    assert not log.exists()
    found = machine.roofs("cpu", "1", 1e6, (0.0, 0.0), log)
    assert isinstance(found, Machine)
    speeds = found.memory_bytes_per_s, found.near_bytes_per_s, found.flops_per_s
    assert all(speed is not None and 1e8 < speed < 1e14 for speed in speeds)
    assert "1 threads" in found.source
