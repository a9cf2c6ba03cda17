"""The diff of the diffs: how the edits of two records differ, rule by rule."""

from __future__ import annotations

import difflib
from typing import Any

from keyelab.record.comparison.side import Side
from keyelab.record.comparison.told import without_places


def diff_of_diffs(a: Side, b: Side) -> list[dict[str, Any]]:
    """{name, only, lines} of each rule whose diff differs, line numbers apart.

    `only` is 'a' or 'b' when the other record does not have it, else ''.
    """
    one, other = a.diffs(), b.diffs()
    if not a.facts("source_patch") or not b.facts("source_patch"):
        return []  # one did not get there
    found = []
    for name in sorted({*one, *other}):
        before, after = (without_places(side.get(name, "")) for side in (one, other))
        if before != after:
            only = "" if name in one and name in other else "a" if name in one else "b"
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), f"A/{name}", f"B/{name}", lineterm=""
            )
            found.append({"name": name, "only": only, "lines": list(lines)})
    return found
