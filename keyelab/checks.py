"""A check: something that was looked at, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

CheckStatus = Literal["ok", "warned", "failed", "unknown"]


class Check(BaseModel):
    """One verdict. `unknown` means it could not be read: never a guess, never a pass."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    status: CheckStatus
    expected: str = ""
    found: str = ""
    remedy: str = ""


def check(
    name: str,
    ok: bool | None,
    *,
    expected: str = "",
    found: str = "",
    remedy: str = "",
    warn: bool = False,
) -> Check:
    """A Check from a truth value: None is unknown; a false one is only warned with `warn`."""
    status: CheckStatus
    if ok is None:
        status = "unknown"
    elif ok:
        status = "ok"
    else:
        status = "warned" if warn else "failed"
    return Check(
        name=name,
        status=status,
        expected=expected,
        found=found,
        remedy="" if status == "ok" else remedy,
    )


def worst(checks: Iterable[Check]) -> Literal["passed", "warned", "failed"]:
    """The outcome of a set of checks; an unknown one warns."""
    found = {item.status for item in checks}
    if "failed" in found:
        return "failed"
    return "warned" if found & {"warned", "unknown"} else "passed"
