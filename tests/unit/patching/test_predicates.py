"""What functions of our own return on the host and on the device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from keyelab.patching.cuda.syntax import Unreadable
from keyelab.patching.cuda.values import Symbol
from keyelab.patching.predicates import Code

HEADER = """
#pragma once
#define LANES 64
#ifdef __chip7__
#define BIG
#endif
enum kind { KIND_A, KIND_B };
struct part { int size; };
static __host__ int width(int chip) { return chip >= 7 ? 8 : 4; }
static constexpr __device__ int width() {
#ifdef BIG
    return 8;
#else
    return 4;
#endif
}
static constexpr __host__ __device__ int rows(kind k, int n, bool half = false) {
    switch (k) {
        case KIND_A:
        case KIND_B: {
            if (half) { return n / 2; }
            break;
        }
        default: return -1;
    }
    return n;
}
template <kind k> static constexpr __device__ int most() { return rows(k, width()); }
"""
SOURCE = """
#include "common.cuh"
#include <not/looked/for.h>
template <kind k, int n = 2>
__launch_bounds__(most<k>()*LANES*n, 1)
static __global__ void sum(const float * __restrict__ x) {
#ifdef BIG
    if (n == 3) { NO_DEVICE_CODE; return; }
    x[0];
#else
    GGML_UNUSED(x);
    NO_DEVICE_CODE;
#endif
}
static __global__ void free_size(float * x) { x[0]; }
static int count(const part * p, const int limit) {
    GGML_ASSERT(p != nullptr && "a part");
    int total = 0;
    for (int i = 0; i < limit; ++i) {
        if (i == 1) { continue; }
        if (i == 5) { break; }
        total += p->size;
    }
    while (total % 4 != 0) { total++; }
    for (const part * q : {p, p}) { total -= q->size; }
    return total;
}
static int endless() { while (true) { } return 1; }
static int pointer(int * p) { return *p; }
static int nothing(int a) { if (a) { return 1; } }
static int unset() { return some_global; }
"""


def code(folder: Path, *, device: bool, chip: str = "__chip7__") -> Code:
    (folder / "common.cuh").write_text(HEADER, encoding="utf-8")
    (folder / "sum.cu").write_text(SOURCE, encoding="utf-8")
    return Code(folder, [chip] if device else [], device=device).including("sum.cu")


def test_overloads_are_told_apart_by_side_and_by_number_of_arguments(tmp_path: Path) -> None:
    assert code(tmp_path, device=False).result("width", chip=7) == 8
    assert code(tmp_path, device=False).result("width", chip=6) == 4
    assert code(tmp_path, device=True).result("width") == 8
    assert code(tmp_path, device=True, chip="__chip6__").result("width") == 4


def test_a_switch_falls_through_and_defaults(tmp_path: Path) -> None:
    host = code(tmp_path, device=False)
    assert host.result("rows", k=Symbol("KIND_A"), n=6) == 6
    assert host.result("rows", k=Symbol("KIND_B"), n=6, half=True) == 3
    assert host.result("rows", k=Symbol("KIND_C"), n=6) == -1


def test_loops_run_as_in_c(tmp_path: Path) -> None:
    part = SimpleNamespace(size=3)
    # five rounds less one: 12, a multiple of 4, less twice 3
    assert code(tmp_path, device=False).result("count", p=part, limit=9) == 6
    # one round: 3, up to 4, less twice 3
    assert code(tmp_path, device=False).result("count", p=part, limit=2) == -2


def test_launch_bounds_follow_the_macros_of_the_device(tmp_path: Path) -> None:
    kind = Symbol("KIND_A")
    assert code(tmp_path, device=True).bound("sum", k=kind) == 8 * 64 * 2
    assert code(tmp_path, device=True, chip="__chip6__").bound("sum", k=kind, n=1) == 4 * 64
    assert code(tmp_path, device=True).bound("free_size") is None


def test_a_kernel_is_without_code_only_where_the_trap_is_not_conditional(tmp_path: Path) -> None:
    assert not code(tmp_path, device=True).without_code("sum")
    assert code(tmp_path, device=True, chip="__chip6__").without_code("sum")


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("endless", {}, "without end"),
        ("pointer", {"p": 1}, "pointer_expression"),
        ("nothing", {"a": 0}, "return"),
        ("unset", {}, "some_global"),
        ("rows", {"n": 1}, "value of k"),
        ("absent", {}, "found 0"),
    ],
)
def test_what_is_not_understood_is_unreadable(
    tmp_path: Path, name: str, known: dict[str, int], message: str
) -> None:
    with pytest.raises(Unreadable, match=message):
        code(tmp_path, device=False).result(name, **known)


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"no file other\.cu"):
        code(tmp_path, device=False).including("other.cu")


def test_a_copy_with_one_more_file_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    first = code(tmp_path, device=True)
    (tmp_path / "more.cuh").write_text("#define MORE\nint more() { return 1; }", encoding="utf-8")
    second = first.including("more.cuh")
    assert "more" in second.functions
    assert "more" not in first.functions
    assert "MORE" not in first.table
