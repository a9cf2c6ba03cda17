from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import cache, result, run
from keyelab.build.plan import BuildPlan
from keyelab.checks import check


@pytest.fixture
def built(make_plan: Any, tmp_path: Path) -> BuildPlan:
    plan: BuildPlan = make_plan()
    cache.begin(plan)
    run.build(plan, os.environ, tmp_path / "build.log", lambda fraction, text: None)
    seen = result.look(plan, os.environ)
    cache.keep(plan, seen, result.checks(plan, seen))
    return plan


def test_nothing_is_reused_before_the_first_build(make_plan: Any) -> None:
    assert cache.finished(make_plan()) is None


def test_finished_build_is_reused_as_it_was(built: BuildPlan) -> None:
    facts = cache.finished(built)
    assert facts is not None
    assert facts.reused is True
    assert facts.version == built.version
    assert facts.backends == ["CPU"]
    assert facts == cache.facts(built, result.look(built, os.environ), reused=True)


def test_changed_program_is_not_reused(built: BuildPlan) -> None:
    with (built.bin_dir / "llama-bench").open("ab") as stream:
        stream.write(b"x")
    assert cache.finished(built) is None


def test_missing_program_is_not_reused(built: BuildPlan) -> None:
    (built.bin_dir / "llama-bench").unlink()
    assert cache.finished(built) is None


def test_broken_mark_is_not_reused(built: BuildPlan) -> None:
    (built.build_dir / "result.json").write_text("{")
    assert cache.finished(built) is None


def test_interrupted_rebuild_is_not_reused(built: BuildPlan) -> None:
    cache.begin(built)
    assert cache.finished(built) is None


def test_build_that_failed_a_check_is_not_kept(built: BuildPlan) -> None:
    cache.begin(built)
    seen = result.look(built, os.environ)
    cache.keep(built, seen, [check("backend", False)])
    assert cache.finished(built) is None
