"""What can be said of two numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.record.comparison.number import Number
from keyelab.record.comparison.words import rounded, swept


@pytest.mark.parametrize(
    ("a", "b", "unit", "duration", "verdict"),
    [
        (100.0, 100.0, "tokens/s", False, "equal"),
        (100.0, 104.0, "tokens/s", False, "about the same"),
        (100.0, 200.0, "tokens/s", False, "may be chance"),
        (100.0, 30.0, "tokens/s", False, "differs"),
        (1.0, 4.0, "s", True, "about the same"),
        (10.0, 40.0, "s", True, "differs"),
        (100, 101, "tokens", False, "differs"),
        (None, 0.0, "tokens", False, "unknown"),
        (0.0, 5.0, "s", False, "differs"),
    ],
)
def test_verdicts(
    a: float | None, b: float | None, unit: str, duration: bool, verdict: str
) -> None:
    one = Number("x", unit, "", a, b, duration=duration)
    assert one.verdict == verdict
    assert one.matters == (verdict == "differs" and unit == "tokens")


positive = st.none() | st.floats(0, 1e9)


@given(a=positive, b=positive)
def test_a_verdict_does_not_depend_on_which_record_is_first(
    a: float | None, b: float | None
) -> None:
    one, other = Number("x", "s", "", a, b), Number("x", "s", "", b, a)
    assert one.verdict == other.verdict
    assert (one.ratio is None) == (other.ratio is None)


def test_an_unknown_or_zero_side_gives_no_ratio() -> None:
    assert Number("x", "s", "", None, 3.0).ratio is None
    assert Number("x", "s", "", 0.0, 3.0).ratio is None


def test_numbers_have_no_more_digits_than_they_can() -> None:
    assert [rounded(v) for v in (None, 1234.567, 12.3456, 0.0123456)] == [
        "unknown", "1,235", "12.3", "0.0123",
    ]  # fmt: skip


def test_repeated_measurements_name_what_else_they_differ_in() -> None:
    told = swept({"allowed": ["build", "prompt"], "effects": [{"verdict": "b is worse"}]})
    assert told.startswith("repeated measurements: 1 of 1 differ")
    assert told.endswith("they are not of the same build and prompt")
