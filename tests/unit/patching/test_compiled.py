"""Reading compiled kernels: our own recording, fakes of a compiler, and clang where it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from keyelab.checks import Check
from keyelab.patching.assembly import parse, rows
from keyelab.patching.compiled import compiled_checks, started
from keyelab.patching.launches import Launch

DATA = Path(__file__).parents[2] / "data" / "compiled"
FAKES = Path(__file__).parents[2] / "fakes"
ASSEMBLY = (DATA / "kernels.s").read_text(encoding="utf-8")


def fake(folder: Path, body: str) -> str:
    """A compiler that does `body`; the output file is the last argument."""
    path = folder / "clang"
    path.write_text(f"#!/bin/sh\nfor last; do :; done\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def recorded(folder: Path, assembly: str = ASSEMBLY) -> str:
    (folder / "kernels.s").write_text(assembly, encoding="utf-8")
    return fake(folder, f'cp "{folder}/kernels.s" "$last"')


def status(checks: list[Check]) -> dict[str, str]:
    return {item.name: item.status for item in checks}


def test_metadata_and_instructions_are_read_kernel_by_kernel() -> None:
    found = {kernel.name: kernel for kernel in parse(ASSEMBLY)}
    assert list(found) == ["spilled", "mul_mat_vec_q<2,0>", "mul_mat_vec_q<3,1>", "plain<-1>"]
    assert found["mul_mat_vec_q<2,0>"].bound_threads == 128
    assert found["mul_mat_vec_q<3,1>"].bound_threads == 64
    assert [found[f"mul_mat_vec_q<{words}>"].dots for words in ("2,0", "3,1")] == [2, 3]
    assert found["plain<-1>"].bound_threads == 1024
    assert found["plain<-1>"].lds_bytes == 1024
    assert found["spilled"].vgprs == 6
    assert found["spilled"].spilled_vgprs == 3
    assert found["spilled"].scratch_bytes == 16
    assert found["spilled"].dots == 0


def test_text_without_metadata_holds_no_kernels() -> None:
    assert parse("") == []
    assert parse(ASSEMBLY.partition(".amdgpu_metadata")[0]) == []


def test_a_row_sums_up_the_instances_of_a_kernel() -> None:
    row = next(row for row in rows("mmvq.cu", parse(ASSEMBLY)) if row["kernel"] == "mul_mat_vec_q")
    assert row["instances"] == "2"
    assert row["bound (threads)"] == "64 128"
    assert row["dot instructions"] == "5"


def test_bounds_are_held_against_what_the_host_starts(tmp_path: Path) -> None:
    starts = {"plain": 512, "spilled": 2048, "mul_mat_vec_q": 128, "mul_mat_vec_q<2,*>": 64}
    starts["not_compiled"] = 1
    _, checks = compiled_checks(tmp_path, recorded(tmp_path), "gfx906", (), ["a.cu"], starts)
    assert status(checks) == {
        "a.cu compiles for gfx906": "ok",
        "plain is compiled for the threads it is started with": "ok",
        "spilled is compiled for the threads it is started with": "failed",
        "mul_mat_vec_q is compiled for the threads it is started with": "ok",
        # compiled for 128: it would leave out half of each row without a message
        "mul_mat_vec_q<2,*> is compiled for the threads it is started with": "failed",
        "quantized products and tile attention use dot instructions on gfx906": "ok",
    }


def test_what_the_host_starts_comes_from_the_launch_audit() -> None:
    found = [
        Launch("a.cu", 1, "plain<-1>", "block", 256),
        Launch("a.cu", 2, "plain<1>", "block", 512),
        Launch("a.cu", 3, "unknown", "block", None, why="n is not known"),
        Launch("a.cu", 4, "bounded", "block", 128, bound="128", allowed=128),
        Launch("a.cu", 5, "mul_mat_vec_q<type, 1>", "block", 128, bound="nwarps", allowed=256),
    ]
    assert started(found) == {"plain": 512, "mul_mat_vec_q": 128}


def test_products_without_dot_instructions_are_warned_about(tmp_path: Path) -> None:
    compiler = recorded(tmp_path, ASSEMBLY.replace("\tv_dot4_", "\tv_mad_"))
    _, checks = compiled_checks(tmp_path, compiler, "gfx928", (), ["a.cu"])
    assert [item.status for item in checks] == ["ok", "warned"]
    assert "none in mul_mat_vec_q; mul_mat_vec_q spills up to 0 VGPRs" in checks[1].found


def test_no_compiler_and_no_time_are_unknown(tmp_path: Path) -> None:
    for compiler in (str(tmp_path / "none"), fake(tmp_path, "exec sleep 60")):
        table, checks = compiled_checks(tmp_path, compiler, "gfx928", files=["a.cu"], timeout_s=0.2)
        assert table == []
        assert [item.status for item in checks] == ["unknown"]


def test_an_error_of_the_compiler_fails_and_is_shown(tmp_path: Path) -> None:
    compiler = fake(tmp_path, "echo 'a.cu:7: error: no member'; exit 1")
    _, checks = compiled_checks(tmp_path, compiler, "gfx928", files=["a.cu"])
    assert checks[0].status == "failed"
    assert "a.cu:7: error: no member" in checks[0].found


@pytest.fixture
def hip(tmp_path: Path) -> list[str]:
    """Flags with which clang finds HIP; skips where clang or the headers are not."""
    include = os.environ.get("KEYELAB_HIP_INCLUDE")
    if not include:
        pytest.skip("KEYELAB_HIP_INCLUDE does not name a folder with hip/hip_runtime.h")
    if not shutil.which("clang++"):
        pytest.skip("no clang++ on PATH")
    root = tmp_path / "rocm"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / ".hipVersion").write_text("HIP_VERSION_MAJOR=6\nHIP_VERSION_MINOR=2\n")
    (root / "include").symlink_to(Path(include).resolve())
    # snapshots of HIP 6.2 lack the name that ggml takes from 6.2 on
    alias = "-D__hip_fp8_e4m3=__hip_fp8_e4m3_fnuz"
    return [f"--rocm-path={root}", "-nogpulib", "-w", alias, "-isystem", str(FAKES / "hip")]


@pytest.mark.source
def test_a_real_compiler_gives_the_default_bound_and_the_flag_lowers_it(
    llama_source: Path, hip: list[str]
) -> None:
    emulated = [*hip, "-U__gfx906__", "-D__gfx928__", "--gpu-max-threads-per-block=256"]
    for flags, bound, verdict in ((hip, "1024", "ok"), (emulated, "256", "failed")):
        table, checks = compiled_checks(
            llama_source, "clang++", "gfx906", flags, ["norm.cu"], {"rms_norm_f32": 1024}
        )
        assert [item.status for item in checks] == ["ok", verdict], checks
        row = next(row for row in table if row["kernel"] == "rms_norm_f32")
        assert row["bound (threads)"] == bound
        assert row["instances"] == "6"
