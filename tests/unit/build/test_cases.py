from __future__ import annotations

from pathlib import Path

from keyelab.build import cases
from keyelab.build.cases import Case
from keyelab.facts import PatchFact

DATA = Path(__file__).parents[2] / "data" / "build"


def patch(name: str, *verify: str) -> PatchFact:
    return PatchFact(id=name, title="", files=[], replacements=1, verify=list(verify))


def test_recorded_failures_are_counted_with_their_errors() -> None:
    """The article's edits on b10019, on an NVIDIA H200: 11 of 21 cases passed."""
    found = cases.parse((DATA / "rms_norm_fails_h200.log").read_text())
    (row,) = cases.rows(found, [patch("rms-norm-256", "RMS_NORM"), patch("norm-256", "NORM")])
    assert row == {
        "operation": "RMS_NORM",
        "OK": 11,
        "FAIL": 10,
        "not supported": 0,
        "worst error": "1.007059464 > 0.000000100",
        "suspect": "rms-norm-256",
    }


def test_line_of_the_runtime_between_a_case_and_its_outcome_is_passed_over() -> None:
    output = "  A(x=1): Launch params (1024, 1, 1) are larger\n\x1b[1;32mOK\x1b[0m\n  B(x=1): OK\n"
    assert cases.parse(output) == [Case("A", "x=1", "OK"), Case("B", "x=1", "OK")]


def test_error_belongs_to_the_case_behind_it() -> None:
    output = (
        "  A(x=1): OK\n[ADD] ERR = 0.5 > 0.1 [ADD] ERR = 0.7 > 0.1   B(x=1): FAIL\n  C(x=1): OK\n"
    )
    assert [case.error for case in cases.parse(output)] == ["", "0.7 > 0.1", ""]


def test_not_a_number_is_worse_than_every_error() -> None:
    output = (
        "[A] ERR = 9.5 > 0.1   A(x=1): FAIL\n[A] NaN at index 3 (ROCm0=nan CPU=1)   A(x=2): FAIL\n"
    )
    assert cases.rows(cases.parse(output), [])[0]["worst error"] == "NaN"


def test_failure_without_an_error_says_so() -> None:
    assert cases.rows(cases.parse("  A(x=1): FAIL\n"), [])[0]["worst error"] == "not printed"


def test_case_whose_outcome_never_came_and_the_list_of_failures_do_not_count() -> None:
    output = (
        "  A(x=1): FAIL\n\nFailing tests:\n  A(x=1)\n  Backend R: FAIL\n  B(x=1): Memory fault\n"
    )
    assert [case.operation for case in cases.parse(output)] == ["A"]


def test_support_has_two_outcomes() -> None:
    output = (
        "  TOP_K(k=1): \x1b[1;32mSUPPORTED\x1b[0m\n  TOP_K(k=2): \x1b[1;31mNOT SUPPORTED\x1b[0m\n"
    )
    assert [case.outcome for case in cases.parse(output)] == ["OK", "not supported"]


def test_fused_operation_is_blamed_on_the_nearest_rules() -> None:
    patches = [patch("norm", "NORM"), patch("rms", "RMS_NORM"), patch("rms-too", "RMS_NORM")]
    assert cases.suspects("RMS_NORM_MUL_ADD", patches) == ["rms", "rms-too"]
    assert cases.suspects("NORM", patches) == ["norm"]
    assert cases.suspects("ROPE", patches) == []
