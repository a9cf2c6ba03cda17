"""Why it is slow: rules over what a run left behind. No evidence, no advice.

A rule looks at a `Case` and returns a `Finding`, or None when it has seen nothing. What a
case does not know (None) gives no finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from keyelab.perf import logrules, setuprules
from keyelab.perf.case import Case, Finding
from keyelab.perf.requests import Row

RULES: tuple[Callable[[Case], Finding | None], ...] = (
    setuprules.cpu_fallback,
    logrules.depth_cost,
    setuprules.grows_beyond_state,
    logrules.graphs_never_reused,
    setuprules.moe_prompt,
    setuprules.spread_over_cards,
    logrules.cache_saves,
    logrules.image_share,
    logrules.slots_unused,
    logrules.queue_time,
    logrules.first_request,
    setuprules.threads,
    setuprules.numa,
)


def findings(case: Case) -> list[Finding]:
    """What the rules find, in the order of the rules."""
    return [found for rule in RULES if (found := rule(case)) is not None]


def rows(found: list[Finding]) -> list[Row]:
    """Findings as a table."""
    return [asdict(one) for one in found]
