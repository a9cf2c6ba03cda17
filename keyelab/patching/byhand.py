"""The published edits, recognised in a tree where someone made them by hand with sed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyelab.patching.rule import Probe

_KERNELS = "ggml/src/ggml-cuda"
_UP_TO_THE_NEXT_BLOCK = r"(?:(?!block_dims\()[\s\S])*?"

# only what no rule of ours and no upstream leaves behind
_MARKS = (
    (
        "norm.cu",
        "GGML_CUDA_MAX_THREADS_PER_BLOCK",
        "the macro GGML_CUDA_MAX_THREADS_PER_BLOCK",
    ),
    (
        "common.cuh",
        "GGML_CUDA_MAX_THREADS_PER_BLOCK",
        "the macro GGML_CUDA_MAX_THREADS_PER_BLOCK",
    ),
    (
        "norm.cu",
        rf"block_dims\(256, 1, 1\);{_UP_TO_THE_NEXT_BLOCK}rms_norm_f32<1024\b",
        "256 threads for rms_norm_f32<1024, …>",
    ),
    (
        "norm.cu",
        r"static_assert\(block_size == 256,[\s\S]*?= s_sum_xx\[lane_id\];",
        "rms_norm_back_f32 for 256 threads that reads 32 sums",
    ),
    (
        "softmax.cu",
        r"ncols > 1024 \? 1024 : ncols[\s\S]*?CUDA_SOFT_MAX_BLOCK_SIZE == 256",
        "soft_max_f32 compiled for 1024 threads and started with 256",
    ),
)


def marks(read: Callable[[str], str]) -> Iterator[str]:
    """The marks of the published edits, each as 'file: what'; `read` gives a file's text or ''."""
    for name, pattern, what in _MARKS:
        if Probe(present=pattern).holds(read(f"{_KERNELS}/{name}")):
            yield f"{name}: {what}"
