"""A check is ok, warned, failed or unknown; the worst one is the outcome."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from keyelab.checks import Check, check, worst


@pytest.mark.parametrize(
    ("ok", "warn", "status"),
    [
        (True, False, "ok"),
        (True, True, "ok"),
        (False, False, "failed"),
        (False, True, "warned"),
        (None, False, "unknown"),
        (None, True, "unknown"),
    ],
)
def test_a_truth_value_becomes_a_verdict(ok: bool | None, warn: bool, status: str) -> None:
    assert check("disk", ok, warn=warn).status == status


def test_a_remedy_stays_only_where_there_is_something_to_mend() -> None:
    assert check("disk", True, remedy="df -h").remedy == ""
    assert check("disk", False, remedy="df -h").remedy == "df -h"
    assert check("disk", None, remedy="df -h").remedy == "df -h"


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([], "passed"),
        (["ok", "ok"], "passed"),
        (["ok", "warned"], "warned"),
        (["ok", "unknown"], "warned"),
        (["unknown", "failed", "ok"], "failed"),
    ],
)
def test_the_worst_verdict_is_the_outcome(statuses: list[str], outcome: str) -> None:
    items = [Check.model_validate({"name": "x", "status": status}) for status in statuses]
    assert worst(items) == outcome


def test_a_verdict_cannot_be_changed_or_made_up() -> None:
    item = check("disk", False)
    with pytest.raises(ValidationError):
        item.status = "ok"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Check.model_validate({"name": "x", "status": "probably"})
