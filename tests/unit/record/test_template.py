"""Speeds are written with the digits that they have."""

from __future__ import annotations

import pytest

from keyelab.record.template import rate


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")],
)
def test_a_rate_has_three_digits_or_more(value: float, text: str) -> None:
    assert rate(value) == text
