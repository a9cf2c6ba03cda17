"""What a notebook calls: parameters by source, checks, facts, one-sentence errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyelab.errors import KeyelabError, NeedsPhase, UsageError
from keyelab.facts import EnvFacts, Facts
from keyelab.record import nb
from keyelab.record.panel import changed_parameters


def begin(**values: Any) -> nb.Step:
    return nb.begin("build", values)


def test_a_value_from_params_is_taken_unless_the_cell_says_otherwise(checkout: Any) -> None:
    checkout.params("build", "jobs: 3\nbuild_type: Debug\n")
    step = begin(jobs=5)
    assert (step.params.jobs, step.sources["jobs"]) == (5, "parameters cell")
    assert step.sources["build_type"] == "params/cpu-demo/build.yaml"
    assert step.sources["reuse"] == "default"


def test_under_papermill_a_default_that_was_given_wins_over_params(
    checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.params("build", "jobs: 3\n")
    monkeypatch.setenv(nb.INJECTED, json.dumps(["jobs"]))
    step = begin(jobs=0)
    assert (step.params.jobs, step.sources["jobs"]) == (0, "override")


def test_a_parameter_that_papermill_injects_by_a_wrong_name_is_refused(
    checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nb.INJECTED, json.dumps(["job"]))
    with pytest.raises(UsageError, match=r"build\.job; did you mean 'jobs'"):
        begin(job=2)


def test_a_commit_that_papermill_made_a_number_is_refused_with_the_way_out(checkout: Any) -> None:
    with pytest.raises(UsageError, match="expected text, found inf") as caught:
        nb.begin("source_patch", {"git_ref": float("inf")})
    assert "-r git_ref" in caught.value.hint


def test_finish_leaves_facts_that_the_next_phase_reads(checkout: Any) -> None:
    step = nb.begin("env_check", {})
    facts = EnvFacts(
        os="Debian", kernel="6", cpu=None, cores=2, memory_bytes=1, python="3.11",
        cmake="cmake", ninja="ninja", cxx=None,
    )  # fmt: skip
    step.check("compiler", True, expected="one", found="g++")
    step.finish(facts)
    assert begin().facts("env_check", EnvFacts) == facts


def test_missing_facts_name_the_phase_to_run(checkout: Any) -> None:
    with pytest.raises(NeedsPhase, match="facts of env_check") as caught:
        begin().facts("env_check", EnvFacts)
    assert "keyelab run --to env_check" in caught.value.hint


def test_a_new_begin_removes_the_facts_of_the_run_before(checkout: Any) -> None:
    step = begin()
    step.finish(Facts())
    left = step.run_dir / "facts" / "build.json"
    assert left.exists()
    begin()
    assert not left.exists()


def test_a_failed_check_raises_with_its_remedy_and_keeps_the_checks(checkout: Any) -> None:
    step = begin()
    step.check("compiler", False, expected="g++", found="none", remedy="apt-get install g++")
    with pytest.raises(KeyelabError, match="expected g\\+\\+, found none") as caught:
        step.finish(Facts())
    assert caught.value.hint == "apt-get install g++"
    content = json.loads((step.run_dir / "facts" / "build.json").read_text())
    assert content["status"] == "failed"
    assert content["checks"][0]["remedy"] == "apt-get install g++"


def test_a_dry_run_finishes_as_skipped(checkout: Any) -> None:
    step = begin(dry_run=True)
    step.finish()
    content = json.loads((step.run_dir / "facts" / "build.json").read_text())
    assert (content["status"], content["reason"]) == ("skipped", "dry run")


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_shows_what_the_programs_of_the_phase_printed(
    checkout: Any, capsys: pytest.CaptureFixture[str], verbose: bool
) -> None:
    step = begin(verbose=verbose)
    step.log("tool").write_text("a line of the tool\n")
    step.finish(Facts())
    assert ("a line of the tool" in capsys.readouterr().out) is verbose


def test_the_panel_keeps_what_was_chosen_and_brings_a_targets_own_values(checkout: Any) -> None:
    checkout.params("build", "gpu_targets: gfx928\n", target="k100ai")
    step = begin(jobs=5)
    step.take(changed_parameters(step, "target", "k100ai"))
    assert (step.params.target, step.params.gpu_targets, step.params.jobs) == (
        "k100ai", "gfx928", 5,
    )  # fmt: skip
    assert step.run_dir.parent.name == "k100ai"
    step.take(changed_parameters(step, "dry_run", True))
    assert step.dry_run


def test_what_is_said_is_redacted(checkout: Any, capsys: pytest.CaptureFixture[str]) -> None:
    begin().say("the token: abcdef123456 is wrong")
    assert "abcdef123456" not in capsys.readouterr().out
