from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import gate
from keyelab.facts import PatchFact

OUTPUT = """\
Backend 1/2: ROCm0
  RMS_NORM(type=f32,ne=[64,5,4,3]): \x1b[1;32mOK\x1b[0m
[RMS_NORM] ERR = 0.500000000 > 0.000000100   RMS_NORM(ne=[1025,5,4,3]): \x1b[1;31mFAIL\x1b[0m
  TOP_K(type=f32,ne=[2048,2,1,3],k=40): not supported [ROCm0]
  Backend ROCm0: \x1b[1;31mFAIL\x1b[0m
"""
ALL = "".join(f"  {name}(type=f32): OK\n" for name in gate.NEEDED)
RULE = PatchFact(id="rms-256", title="", files=[], replacements=1, verify=["RMS_NORM"])


def kept(plan: Any) -> Any:
    path = Path(plan.params.workdir) / "gates" / f"{plan.source.tree_sha256}.json"
    return json.loads(path.read_text())


def words(plan: Any) -> list[str]:
    said: list[str] = (plan.bin_dir / "words.txt").read_text().splitlines()
    return said


def test_failing_operation_fails_the_gate_and_names_the_rule(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    plan = hip_plan(OUTPUT, 1, recipe="article", patches=[RULE])
    rows, (verdict, untested) = gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "failed"
    assert verdict.found == "2 cases on ROCm0, failing: RMS_NORM 1 (suspect rms-256)"
    assert [row["operation"] for row in rows] == ["RMS_NORM", "TOP_K"]
    assert untested.status == "unknown"
    assert "TOP_K" in untested.found
    assert "RMS_NORM" not in untested.found


def test_verdict_is_left_for_the_next_choice_of_a_recipe(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    plan = hip_plan(OUTPUT, 1, recipe="article")
    gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    content = kept(plan)
    assert content.pop("when").endswith("Z")
    assert content == {
        "schema": 1,
        "passed": False,
        "failing": ["RMS_NORM"],
        "recipe": "article",
        "device": seen.devices[0],
    }
    (plan.bin_dir / "test-backend-ops").write_text(f"#!/bin/sh\nprintf '{ALL}'\n")
    gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    assert (kept(plan)["passed"], kept(plan)["failing"]) == (True, [])


def test_good_kernels_pass(hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path) -> None:
    _, verdicts = gate.run(hip_plan(ALL), seen, os.environ, tmp_path / "log", quiet)
    assert [verdict.status for verdict in verdicts] == ["ok", "ok"]


@pytest.mark.parametrize(
    "line",
    [
        "Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel rms_norm",
        "ERROR: HIP kernel mul_mat_f has no device code compatible with HIP arch 1300.",
    ],
)
def test_complaint_of_the_runtime_fails_although_cases_pass(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path, line: str
) -> None:
    plan = hip_plan(ALL.replace(": OK", f": {line}\nOK", 1))
    _, (verdict, _) = gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "failed"
    assert line in verdict.found
    assert not kept(plan)["passed"]


def test_gate_that_dies_fails_and_says_after_what(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    plan = hip_plan("  NORM(ne=[8]): OK\nMemory access fault by GPU node-1\n", 134)
    _, (verdict, _) = gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "failed"
    assert "ended with status 134 after NORM" in verdict.found
    assert kept(plan)["failing"] == [verdict.found]


def test_gate_that_never_ends_fails(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LIMIT_S", 0.3)
    plan = hip_plan(ALL)
    with (plan.bin_dir / "test-backend-ops").open("w") as program:
        program.write(f"#!/bin/sh\nprintf '{ALL}'\nexec sleep 30\n")
    _, (verdict, _) = gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "failed"
    assert "still running" in verdict.found


def test_recipe_decides_what_is_tested(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    plan = hip_plan(ALL, gate=["SOLVE_TRI", "CONV_2D"], weights=["any"])
    gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    (line,) = words(plan)
    assert {"CONV_2D", "SOLVE_TRI", "MUL_MAT", "FLASH_ATTN_EXT"} <= set(line.split()[4].split(","))
    assert "-p" not in line.split()


def test_other_weights_and_flash_attention_are_left_out_where_the_recipe_leaves_them_out(
    hip_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    plan = hip_plan(ALL, weights=["F32", "BF16"], flash_attention="off")
    _, (_, untested) = gate.run(plan, seen, os.environ, tmp_path / "log", quiet)
    others, products = words(plan)
    assert "MUL_MAT" not in others
    assert products.split()[3:] == [
        *("-o", "MUL_MAT,MUL_MAT_ID,MUL_MAT_ID_FUSION,MUL_MAT_VEC_FUSION"),
        *("-p", "type(_a)?=(f32|bf16),"),
    ]
    assert "FLASH_ATTN_EXT" not in others
    assert untested.status == "ok"


def test_no_accelerator_is_unknown_and_a_cpu_build_has_no_gate(
    make_plan: Any, seen: Any, quiet: Any, tmp_path: Path
) -> None:
    none = dataclasses.replace(seen, devices=[])
    plan = make_plan(backend="hip", gpu_targets="gfx928")
    _, (verdict,) = gate.run(plan, none, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "unknown"
    assert not (Path(plan.params.workdir) / "gates").exists()
    assert gate.run(make_plan(), seen, os.environ, tmp_path / "log", quiet) == ([], [])
