from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from keyelab.build import gate
from keyelab.build.result import Result

# The layout of test-backend-ops of b10019; numbers are made up.
OUTPUT = """\
Testing 2 devices

Backend 1/2: ROCm0
  Device description: K100_AI
  RMS_NORM(type=f32,ne=[64,5,4,3],v=0,eps=0.000001,inplace=0): \x1b[1;32mOK\x1b[0m
  RMS_NORM(type=f32,ne=[1025,5,4,3]): [RMS_NORM] ERR = 0.5 > 0.0000001 \x1b[1;31mFAIL\x1b[0m
  SOFT_MAX(type=f32,ne=[16,2,32,1]): \x1b[1;32mOK\x1b[0m
  TOP_K(type=f32,ne=[2048,2,1,3],k=40): not supported [ROCm0]
  2/3 tests passed

Failing tests:
  RMS_NORM(type=f32,ne=[1025,5,4,3])
  Backend ROCm0: \x1b[1;31mFAIL\x1b[0m
Backend 2/2: CPU
  Skipping
1/2 backends passed
"""
SEEN = Result("b1-x", ["HIP"], ["ROCm0: K100_AI (1 MiB, 1 MiB free)"], [], ["gfx928"], {})


def quiet(fraction: float | None, text: str) -> None:
    return None


def hip(make_plan: Any, says: str, status: int = 0) -> Any:
    plan = make_plan(backend="hip", gpu_targets="gfx928")
    plan.bin_dir.mkdir(parents=True)
    said = plan.bin_dir / "said.txt"
    said.write_text(says)
    program = plan.bin_dir / "test-backend-ops"
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *MUL_MAT_ID*-p*bf16*) echo "  MUL_MAT(type_a=bf16): OK"; exit 0 ;; esac\n'
        f"cat {said}\nexit {status}\n"
    )
    program.chmod(0o755)
    return plan


def test_cases_are_counted_by_operation_and_not_twice() -> None:
    assert gate.parse(OUTPUT) == {
        ("RMS_NORM", "OK"): 1,
        ("RMS_NORM", "FAIL"): 1,
        ("SOFT_MAX", "OK"): 1,
        ("TOP_K", "not supported"): 1,
    }


def test_failing_operation_fails_the_gate_by_name(make_plan: Any, tmp_path: Path) -> None:
    plan = hip(make_plan, OUTPUT, 1)
    rows, (verdict,) = gate.run(plan, SEEN, os.environ, tmp_path / "gate.log", quiet)
    assert verdict.status == "failed"
    assert verdict.found == "4 cases on ROCm0, failing: RMS_NORM 1"
    assert rows[1] == {"operation": "RMS_NORM", "OK": 1, "FAIL": 1, "not supported": 0}


def test_good_kernels_pass(make_plan: Any, tmp_path: Path) -> None:
    plan = hip(make_plan, "  ROPE(type=f32): OK\n")
    _, (verdict,) = gate.run(plan, SEEN, os.environ, tmp_path / "gate.log", quiet)
    assert verdict.status == "ok"


def test_launch_above_its_bounds_fails_although_cases_pass(make_plan: Any, tmp_path: Path) -> None:
    line = "Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel rms_norm\n"
    plan = hip(make_plan, f"{line}  RMS_NORM(type=f32): OK\n")
    _, (verdict,) = gate.run(plan, SEEN, os.environ, tmp_path / "gate.log", quiet)
    assert verdict.status == "failed"
    assert "1 launches above their bounds" in verdict.found


def test_gate_that_dies_without_a_case_fails(make_plan: Any, tmp_path: Path) -> None:
    plan = hip(make_plan, "Memory access fault\n", 134)
    _, (verdict,) = gate.run(plan, SEEN, os.environ, tmp_path / "gate.log", quiet)
    assert verdict.status == "failed"
    assert "status 134" in verdict.found


def test_no_accelerator_is_unknown_and_a_cpu_build_has_no_gate(
    make_plan: Any, tmp_path: Path
) -> None:
    none = dataclasses.replace(SEEN, devices=[])
    plan = make_plan(backend="hip", gpu_targets="gfx928")
    _, (verdict,) = gate.run(plan, none, os.environ, tmp_path / "gate.log", quiet)
    assert verdict.status == "unknown"
    assert gate.run(make_plan(), SEEN, os.environ, tmp_path / "gate.log", quiet) == ([], [])
