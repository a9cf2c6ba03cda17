from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import result, run
from keyelab.build.plan import BuildPlan
from keyelab.checks import check


def compiled(plan: BuildPlan, log: Path) -> bool:
    return not run.build(plan, os.environ, log, lambda fraction, text: None)


@pytest.fixture
def built(make_plan: Any, tmp_path: Path) -> BuildPlan:
    plan: BuildPlan = make_plan()
    assert compiled(plan, tmp_path / "build.log")
    seen = result.look(plan, os.environ)
    result.keep(plan, result.facts(plan, seen, False), result.checks(plan, seen))
    return plan


def test_finished_build_is_reused_as_it_was(built: BuildPlan, tmp_path: Path) -> None:
    assert not compiled(built, tmp_path / "again.log")
    assert not (tmp_path / "again.log").exists()
    facts = result.facts(built, result.look(built, os.environ), True)
    assert (facts.reused, facts.version, facts.backends) == (True, built.version, ["CPU"])


def test_finished_build_is_made_again_when_asked(built: BuildPlan, tmp_path: Path) -> None:
    assert not run.build(built, os.environ, tmp_path / "again.log", lambda *_: None, reuse=False)
    assert (tmp_path / "again.log").exists()
    assert not result.finished(built)


def test_changed_missing_or_broken_files_are_not_reused(built: BuildPlan) -> None:
    program, mark = built.bin_dir / "llama-bench", built.build_dir / "result.json"
    content, kept = program.read_bytes(), mark.read_text()
    assert result.finished(built)
    program.write_bytes(content + b"x")
    assert not result.finished(built)
    program.unlink()
    assert not result.finished(built)
    program.write_bytes(content)
    mark.write_text("{")
    assert not result.finished(built)
    mark.write_text(kept)
    assert result.finished(built)


def test_build_that_is_not_whole_or_failed_a_check_is_not_kept(built: BuildPlan) -> None:
    facts = result.facts(built, result.look(built, os.environ), False)
    result.begin(built)
    assert not result.finished(built)
    result.keep(built, facts, [check("backend", False)])
    assert not result.finished(built)
