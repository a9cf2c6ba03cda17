from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import cases, fallback
from keyelab.facts import ModelFacts

NARROW = """\
  ARGSORT(type=f32,ne=[1024,2,1,3],order=1): SUPPORTED
  ARGSORT(type=f32,ne=[1025,2,1,3],order=1): NOT SUPPORTED
  TOP_K(type=f32,ne=[1024,2,1,3],k=7,ties=0): SUPPORTED
  TOP_K(type=f32,ne=[2049,2,1,3],k=7,ties=0): NOT SUPPORTED
  TOP_K(type=f32,ne=[1025,2,1,3],k=7,ties=0): NOT SUPPORTED
"""
WIDE = NARROW.replace("NOT SUPPORTED", "SUPPORTED").replace("2049", "262144")


def test_width_counts_as_taken_only_when_every_case_of_it_is() -> None:
    output = "  TOP_K(ne=[8,1],k=1): SUPPORTED\n  TOP_K(ne=[8,2],k=1): NOT SUPPORTED\n"
    assert fallback.widths("TOP_K", cases.parse(output)) == {8: False}


def test_top_k_on_the_cpu_within_the_context_warns(
    hip_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path
) -> None:
    plan = hip_plan(NARROW)
    table, (verdict,) = fallback.run(plan, seen, model, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "warned"
    assert verdict.found == "TOP_K from 1,025 columns, of 4,096 that may be needed"
    assert [row["on the CPU from"] for row in table] == [1025, 1025]


def test_card_that_takes_every_width_is_good(
    hip_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path
) -> None:
    plan = hip_plan(WIDE)
    table, (verdict,) = fallback.run(plan, seen, model, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "ok"
    assert table[0]["widest tested"] == 262144


def test_width_that_no_case_reaches_is_unknown(
    hip_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path
) -> None:
    plan = hip_plan(WIDE.replace("262144", "2049"))
    _, (verdict,) = fallback.run(plan, seen, model, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "unknown"
    assert verdict.found == "none; not tested so wide: TOP_K"


@pytest.mark.parametrize(("says", "status"), [("", 0), (WIDE, 134)])
def test_no_answer_is_unknown(
    hip_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path, says: str, status: int
) -> None:
    plan = hip_plan(says, status)
    _, (verdict,) = fallback.run(plan, seen, model, os.environ, tmp_path / "log", quiet)
    assert verdict.status == "unknown"


def test_cpu_build_and_missing_card_have_no_table(
    make_plan: Any, seen: Any, quiet: Any, model: ModelFacts, tmp_path: Path
) -> None:
    none = dataclasses.replace(seen, devices=[])
    log = tmp_path / "log"
    assert fallback.run(make_plan(), seen, model, os.environ, log, quiet) == ([], [])
    gpu = make_plan(backend="hip", gpu_targets="gfx928")
    assert fallback.run(gpu, none, model, os.environ, log, quiet) == ([], [])
