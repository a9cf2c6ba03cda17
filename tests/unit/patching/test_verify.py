"""Launches that are written as constants, and kernels that disagree with them."""

from __future__ import annotations

from pathlib import Path

from keyelab.patching.recipe import load_recipe
from keyelab.patching.verify import KERNELS, launches, verify

KERNEL = """
template <int block_size, bool scale = false>
static __global__ void demo_f32(const float * x) { }

static void demo_cuda(const float * x, int n) {
    if (n < 256) {
        const dim3 block_dims(WARP_SIZE, 1, 1);
        demo_f32<WARP_SIZE><<<n, block_dims, 0, stream>>>(x);
    } else {
        const dim3 block_dims(%(threads)s, 1, 1);
        ggml_cuda_kernel_launch(demo_f32<%(compiled)s, true>, params, x);
    }
    const dim3 block_dims(WARP_SIZE, rows, 1);
}
"""


def kernels(tree: Path, threads: int, compiled: int) -> Path:
    path = tree / KERNELS / "demo.cu"
    path.parent.mkdir(parents=True)
    path.write_text(KERNEL % {"threads": threads, "compiled": compiled}, encoding="utf-8")
    return tree


def test_launches_are_paired_with_the_instance_in_their_block(tmp_path: Path) -> None:
    found = [(launch.threads, launch.compiled) for launch in launches(kernels(tmp_path, 256, 512))]
    assert found == [(32, 32), (256, 512)], "a size known only at run time is left out"


def test_a_kernel_compiled_for_another_size_fails(tmp_path: Path) -> None:
    limit, agreement = verify(kernels(tmp_path, 256, 1024), [], 256)
    assert limit.status == "ok"
    assert agreement.status == "failed"
    assert agreement.found == "demo.cu:10 demo_f32 starts 256, compiled for 1024"


def test_a_launch_above_the_limit_fails(tmp_path: Path) -> None:
    limit, agreement = verify(kernels(tmp_path, 1024, 1024), [], 256)
    assert limit.status == "failed"
    assert agreement.status == "ok"


def test_a_tree_without_kernels_is_unknown_and_never_ok(tmp_path: Path) -> None:
    checks = verify(tmp_path, load_recipe("k100ai").rules, 256)
    assert {check.status for check in checks} == {"unknown"}
