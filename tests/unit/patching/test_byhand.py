"""Marks of edits that someone made by hand, against what a pristine and our patched tree hold."""

from __future__ import annotations

import pytest

from keyelab.patching.byhand import marks

LAUNCH = """
    if (ncols < 256) {
        const dim3 block_dims(256, 1, 1);
        launch(params{block_dims}, rms_norm_f32<256, false>, x);
    } else {
        const dim3 block_dims(%s, 1, 1);
        launch(params{block_dims, block_dims.x > 32}, rms_norm_f32<%s, false>, x);
    }
"""


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("norm.cu", LAUNCH % (1024, 1024), []),
        ("norm.cu", LAUNCH % (256, 256), []),
        ("norm.cu", LAUNCH % (256, 1024), ["norm.cu: 256 threads for rms_norm_f32<1024, …>"]),
        (
            "common.cuh",
            "#define GGML_CUDA_MAX_THREADS_PER_BLOCK 256\n",
            ["common.cuh: the macro GGML_CUDA_MAX_THREADS_PER_BLOCK"],
        ),
    ],
)
def test_only_the_published_edits_leave_a_mark(file: str, text: str, found: list[str]) -> None:
    assert list(marks(lambda path: text if path.endswith(f"/{file}") else "")) == found
