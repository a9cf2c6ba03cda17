"""Operations that a card leaves to the CPU: test-backend-ops says how wide a row it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from keyelab.build import cases, gate
from keyelab.build.plan import KERNEL_GATE, BuildPlan
from keyelab.build.result import Result
from keyelab.checks import Check, check
from keyelab.facts import ModelFacts
from keyelab.files import shown

# Columns that Keye-VL-2.0's graph sorts: sparse attention picks among all tokens of the context,
# the router among 128 experts.
EXPERTS = 128


def run(
    plan: BuildPlan,
    seen: Result,
    model: ModelFacts,
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None],
) -> tuple[list[dict[str, object]], list[Check]]:
    """Ask the first accelerator for the widest row of TOP_K and ARGSORT; a fallback warns.

    Returns table rows in columns and the verdict, neither without an accelerator.
    """
    if KERNEL_GATE not in plan.programs or not seen.devices:
        return [], []
    wanted = {"TOP_K": model.context_tokens, "ARGSORT": EXPERTS}
    words = ["support", "-b", seen.devices[0].split(":")[0], "-o", ",".join(wanted)]
    output, end = gate.ask(plan, words, env, log, on_progress)
    results = cases.parse(output)
    seen_widths = {name: widths(name, results) for name in wanted}
    first = {
        name: min((width for width, on in its.items() if not on), default=None)
        for name, its in seen_widths.items()
    }
    left = [
        f"{name} from {width:,} columns, of {wanted[name]:,} that may be needed"
        for name, width in first.items()
        if width is not None and width <= wanted[name]
    ]
    narrow = [n for n, its in seen_widths.items() if max(its, default=0) < wanted[n]]
    known = not end and not narrow
    verdict = check(
        "operations that fall back to the CPU",
        False if left else True if known else None,
        expected="the card takes rows as wide as the model needs",
        found=", ".join(left) or end or f"none; not tested so wide: {', '.join(narrow) or 'none'}",
        remedy="answers stay right, decoding at long contexts is slower; TOP_K of any width is on "
        f"HIP from about b11010 on; see {shown(log)}",
        warn=True,
    )
    table: list[dict[str, object]] = [
        {
            "operation": name,
            "widest tested": max(seen_widths[name], default=None),
            "on the CPU from": first[name] or ("no tested width" if seen_widths[name] else None),
            "needed": needed,
        }
        for name, needed in wanted.items()
    ]
    return table, [verdict]


def widths(name: str, results: Iterable[cases.Case]) -> dict[int, bool]:
    """Row widths (columns) of the cases of an operation: whether the card takes all of a width."""
    found: dict[int, bool] = {}
    for case in results:
        if case.operation == name and (row := re.search(r"ne=\[(\d+),", case.params)):
            width = int(row[1])
            found[width] = found.get(width, True) and case.outcome == cases.OK
    return found
