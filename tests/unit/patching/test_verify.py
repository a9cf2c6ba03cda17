"""The checks of a patched tree: its launches, then what its rules promise."""

from __future__ import annotations

from pathlib import Path

from keyelab.patching.recipe import load_recipe
from keyelab.patching.verify import KERNELS, verify

KERNEL = """
template <int block_size, bool scale = false>
static __global__ void demo_f32(const float * x) { }

static void demo_cuda(const float * x, int n, cudaStream_t stream) {
    if (n < 256) {
        const dim3 block_dims(32, 1, 1);
        demo_f32<32><<<n, block_dims, 0, stream>>>(x);
    } else {
        const dim3 block_dims(%(threads)s, 1, 1);
        const ggml_cuda_kernel_launch_params params = {n, block_dims, 0, stream};
        ggml_cuda_kernel_launch(demo_f32<%(compiled)s, true>, params, x);
    }
}
"""


def kernels(tree: Path, threads: int, compiled: int) -> Path:
    path = tree / KERNELS / "demo.cu"
    path.parent.mkdir(parents=True)
    path.write_text(KERNEL % {"threads": threads, "compiled": compiled}, encoding="utf-8")
    return tree


def test_a_kernel_compiled_for_another_size_fails(tmp_path: Path) -> None:
    limit, agreement, told = verify(kernels(tmp_path, 256, 1024), [], 256)
    assert (limit.status, told.status) == ("ok", "ok")
    assert agreement.status == "failed"
    assert agreement.found == "demo.cu:12 demo_f32<1024, true> starts 256, compiled for 1,024"


def test_a_launch_above_the_limit_fails(tmp_path: Path) -> None:
    limit, agreement, _ = verify(kernels(tmp_path, 1024, 1024), [], 256)
    assert limit.status == "failed"
    assert limit.found == "demo.cu:12 demo_f32<1024, true> 1,024 threads"
    assert agreement.status == "ok"


def test_a_tree_without_kernels_is_unknown_and_never_ok(tmp_path: Path) -> None:
    checks = verify(tmp_path, load_recipe("article").rules, 256)
    assert {check.status for check in checks} == {"unknown"}
