"""A verdict on the host: what data/checks.yaml says of a check, with what was found."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from keyelab.checks import Check, check


@cache
def texts() -> dict[str, dict[str, Any]]:
    """data/checks.yaml: expected, remedy and warn of each check by its name."""
    path = Path(__file__).parent / "data" / "checks.yaml"
    content: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def verdict(name: str, ok: bool | None, found: str, **filled: object) -> Check:
    """The check of this name; None is unknown, `filled` goes into its texts."""
    text = texts()[name]
    return check(
        name,
        ok,
        expected=str(text["expected"]).format(**filled),
        found=found,
        remedy=str(text["remedy"]).format(**filled),
        warn=bool(text.get("warn")),
    )
