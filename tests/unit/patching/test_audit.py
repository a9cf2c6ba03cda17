"""Launch sizes and verdicts on small sources of our own, one construct each."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.patching.audit import bound_check, disagreement, launch_checks, remarks
from keyelab.patching.launches import Launch, launches
from keyelab.patching.verify import KERNELS

COMMON = """
#define WARP_SIZE 32
#define GGML_CUDA_CC_OFFSET_AMD 0x1000000
#define GGML_CUDA_CC_CDNA1 (GGML_CUDA_CC_OFFSET_AMD + 0x908)
#define GGML_CUDA_CC_IS_CDNA(cc) (cc >= GGML_CUDA_CC_CDNA1)
#define MOST 1024
"""
KERNEL = "static __global__ void k(int n) { }\n"


def one(tmp_path: Path, text: str, **files: str) -> Launch:
    """The only launch in a tree whose kernels are `text`."""
    (found,) = every(tmp_path, text, **files)
    return found


def every(tmp_path: Path, text: str, **files: str) -> list[Launch]:
    folder = tmp_path / KERNELS
    folder.mkdir(parents=True)
    (folder / "common.cuh").write_text(COMMON, encoding="utf-8")
    (folder / "a.cu").write_text('#include "common.cuh"\n' + text, encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.cu").write_text(content, encoding="utf-8")
    return launches(tmp_path)


BODIES = {
    "literal": ("k<<<n, 64, 0, s>>>(n);", 64),
    "macro": ("k<<<n, MOST/2, 0, s>>>(n);", 512),
    "block": ("const dim3 b(WARP_SIZE, 4, 1); k<<<n, b, 0, s>>>(n);", 128),
    "a block that reads like a function": ("dim3 b(MOST, 1); k<<<n, b, 0, s>>>(n);", 1024),
    "smaller of two": ("int t = std::min<int>(n, 768); k<<<n, t, 0, s>>>(n);", 768),
    "either branch": ("k<<<n, n < 9 ? 32 : 96, 0, s>>>(n);", 96),
    "powers of two": (
        "int t = WARP_SIZE; while (t < n && t < MOST) t *= 2; k<<<n, t, 0, s>>>(n);",
        1024,
    ),
    "the best of a loop": (
        "int t = 32; for (int i = 64; i <= 256; i += 32) { if (n > i) { t = i; } } "
        "k<<<n, t, 0, s>>>(n);",
        256,
    ),
    "an assertion": ("GGML_ASSERT(n == 64 || n == 128); k<<<1, n, 0, s>>>(n);", 128),
    "an early return": ("if (n > 320) { return; } k<<<1, n, 0, s>>>(n);", 320),
    "a case": ("switch (n) { case 48: k<<<1, n, 0, s>>>(n); break; default: break; }", 48),
    "a share of the rest": (
        "dim3 b; b.x = std::min(n, 128); b.y = std::min(n, 128 / b.x); k<<<1, b, 0, s>>>(n);",
        128,
    ),
    "the lanes of the chip": (
        "const int w = ggml_cuda_info().devices[0].warp_size; k<<<1, dim3(w, 4), 0, s>>>(n);",
        256,
    ),
    "what the host believes of the chip": (
        "const int cc = ggml_cuda_info().devices[0].cc; "
        "k<<<1, GGML_CUDA_CC_IS_CDNA(cc) ? 512 : 256, 0, s>>>(n);",
        512,
    ),
    "launch parameters": (
        "const dim3 b(96, 1, 1); const ggml_cuda_kernel_launch_params p = {n, b, 0, s}; "
        "ggml_cuda_kernel_launch(k, p, n);",
        96,
    ),
    "cooperative": ("cudaLaunchCooperativeKernel((void *) k, dim3(n), dim3(8*32), a, 0, s);", 256),
    "a kernel behind a pointer": ("auto f = n ? k : k; f<<<1, 224, 0, s>>>(n);", 224),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_largest_block_is_found(name: str, tmp_path: Path) -> None:
    body, size = BODIES[name]
    launch = one(tmp_path, f"{KERNEL}void f(int n, cudaStream_t s) {{ {body} }}")
    assert (launch.threads, launch.why) == (size, "")


def test_a_size_that_only_the_caller_knows_comes_from_every_caller(tmp_path: Path) -> None:
    text = f"""{KERNEL}
    static void g(int t, dim3 b, cudaStream_t s) {{ k<<<1, t, 0, s>>>(t); k<<<1, b, 0, s>>>(t); }}
    void f1(cudaStream_t s) {{ g(32, dim3(16, 2), s); }}
    void f2(cudaStream_t s) {{ g(160, dim3(16, 16), s); }}"""
    assert [launch.threads for launch in every(tmp_path, text)] == [160, 256]


def test_a_size_that_nobody_limits_is_unknown_says_why_and_is_never_passed(tmp_path: Path) -> None:
    launch = one(tmp_path, f"{KERNEL}void f(int n, cudaStream_t s) {{ k<<<1, n, 0, s>>>(n); }}")
    assert (launch.threads, launch.why) == (None, "n is not known")
    _, _, told = launch_checks([launch], 256)
    assert told.status == "unknown"
    assert told.found == "a.cu:3 k ? (n is not known)"
    assert remarks(launch, 256) == "n is not known"


def test_what_supports_op_promises_limits_the_launch(tmp_path: Path) -> None:
    text = f"""{KERNEL}
    void ggml_cuda_op_sort(ggml_tensor * dst, cudaStream_t s) {{
        const ggml_tensor * src0 = dst->src[0];
        k<<<1, src0->ne[0], 0, s>>>(1);
    }}
    bool ggml_cuda_compute_forward(ggml_tensor * dst) {{
        switch (dst->op) {{
            case GGML_OP_SORT: ggml_cuda_op_sort(dst, 0); break;
            default: return false;
        }}
        return true;
    }}
    bool supports_op(const ggml_tensor * op) {{
        switch (op->op) {{ case GGML_OP_SORT: return op->src[0]->ne[0] <= 512; }}
        return false;
    }}"""
    launch = one(tmp_path, text)
    assert (launch.threads, launch.ops) == (512, ("SORT",))


def test_code_that_hip_does_not_compile_is_left_out(tmp_path: Path) -> None:
    text = f"""{KERNEL}void f(int n, cudaStream_t s) {{
#ifdef GGML_USE_HIP
    k<<<1, 64, 0, s>>>(n);
#else
    k<<<1, 1024, 0, s>>>(n);
#endif
    }}"""
    assert one(tmp_path, text).threads == 64


def test_a_launch_in_a_macro_counts_where_the_macro_is_used(tmp_path: Path) -> None:
    text = f"""{KERNEL}#define GO(T) \\
    k<<<1, T, 0, s>>>(n);
void f(int n, cudaStream_t s) {{
    GO(32)
    GO(64)
}}"""
    found = [(launch.line, launch.threads) for launch in every(tmp_path, text)]
    assert found == [(6, 32), (7, 64)]


def test_a_branch_for_other_chips_is_never_started(tmp_path: Path) -> None:
    body = "if (!GGML_CUDA_CC_IS_CDNA(ggml_cuda_info().devices[0].cc)) { k<<<1, 1024, 0, s>>>(n); }"
    launch = one(tmp_path, f"{KERNEL}void f(int n, cudaStream_t s) {{ {body} }}")
    assert (launch.threads, launch.why) == (0, "never started on this architecture")
    assert [c.status for c in launch_checks([launch], 256)] == ["ok", "ok", "ok"]


SIZED = """
template <int block_size> static __global__ void k(int n) { }
template <int block_size> static void g(int n, dim3 b, cudaStream_t s) {
    k<block_size><<<n, b, 0, s>>>(n);
}
void f(int n, cudaStream_t s) {
    int t = 32;
    for (int i = 64; i <= 128; i += 32) { if (n > i) { t = i; } }
    const dim3 b(t, 1, 1);
    switch (t) {
        case  32: g< 32>(n, b, s); break;
        case  64: g< 64>(n, b, s); break;
        case  96: g< 96>(n, b, s); break;
        case 128: g<%s>(n, b, s); break;
        case 256: g<256>(n, b, s); break;
        default: break;
    }
}
"""


@pytest.mark.parametrize(("last", "agrees"), [("128", True), ("256", False)])
def test_each_case_of_a_switch_agrees_with_its_template_argument(
    last: str, agrees: bool, tmp_path: Path
) -> None:
    launch = one(tmp_path, SIZED % last)
    assert (launch.threads, launch.compiled, launch.agrees) == (128, int(last), agrees)
    expected = "" if agrees else "starts 128, compiled for 256"
    assert disagreement(launch) == expected


SUMS = """
template <int block_size> static __global__ void k(const float * x, float * y) {
    __shared__ float sums[32];
    const int warp_id = threadIdx.x / WARP_SIZE;
    const int lane_id = threadIdx.x %% WARP_SIZE;
    float sum = x[threadIdx.x];
    %s
    if (lane_id == 0) { sums[warp_id] = sum; }
    __syncthreads();
    %s
    y[0] = sum;
}
void f(cudaStream_t s) { k<%d><<<1, %d, 0, s>>>(nullptr, nullptr); }
"""


@pytest.mark.parametrize(
    ("before", "read", "threads", "text"),
    [
        ("", "sum = sums[lane_id];", 1024, ""),
        ("", "sum = sums[lane_id];", 256, "reads 32 partial sums, 8 are written"),
        ("", "sum = sums[lane_id];", 32, ""),
        ("", "sum = lane_id < block_size/WARP_SIZE ? sums[lane_id] : 0.0f;", 256, ""),
        ("", "if (lane_id < block_size/WARP_SIZE) { sum = sums[lane_id]; }", 256, ""),
        ("sums[lane_id] = 0.0f;", "sum = sums[lane_id];", 256, ""),
    ],
)
def test_sums_that_no_thread_wrote_are_seen(
    before: str, read: str, threads: int, text: str, tmp_path: Path
) -> None:
    assert disagreement(one(tmp_path, SUMS % (before, read, threads, threads))) == text


BOUNDED = """
static constexpr __device__ int most() {
#if defined(__gfx928__)
    return %s;
#else
    return 1024;
#endif
}
__launch_bounds__(most(), 1) static __global__ void k(int n) { }
void f(int n, cudaStream_t s) { k<<<n, 512, 0, s>>>(n); }
"""


@pytest.mark.parametrize(("bound", "status"), [(512, "ok"), (256, "failed")])
def test_an_explicit_bound_is_read_on_the_device(bound: int, status: str, tmp_path: Path) -> None:
    launch = one(tmp_path, BOUNDED % bound)
    assert (launch.bound, launch.allowed) == ("most()", bound)
    assert launch_checks([launch], 256)[0].status == "ok", "an explicit bound is not the limit's"
    assert bound_check([launch], 256).status == status


def test_kernels_for_quantized_weights_without_a_bound_are_not_passed_in_silence(
    tmp_path: Path,
) -> None:
    text = """template <ggml_type type> static __global__ void q(int n) { }
    void f(int n, cudaStream_t s) { q<GGML_TYPE_Q4_0><<<n, 512, 0, s>>>(n); }"""
    launch = one(tmp_path, text)
    limit = launch_checks([launch], 256)[0]
    assert limit.found == "1 launches, none above, but 1 of kernels for quantized weights"
    bounds = bound_check([launch], 256)
    assert (bounds.status, bounds.found) == (
        "failed",
        "a.cu:3 q<GGML_TYPE_Q4_0> starts 512, without a bound",
    )


def test_without_any_launch_nothing_is_known() -> None:
    assert {c.status for c in [*launch_checks([], 256), bound_check([], 256)]} == {"unknown"}
