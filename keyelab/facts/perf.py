"""What a server's log says of its speed: phase 08."""

from __future__ import annotations

from typing import Any

from keyelab.facts.base import Facts


class PerfFacts(Facts):
    """08_perf_analysis: one row a request, the load time (s), the sweeps, and what they explain.

    `sweep` has a row a repetition at a depth, `load` one a request under load; `sweep_prompt` is
    the digest of what they asked.
    """

    log: str
    load_s: float | None
    tasks: list[dict[str, Any]]
    decode_tps: float | None
    prefill_tps: float | None
    sweep: list[dict[str, Any]] = []
    load: list[dict[str, Any]] = []
    sweep_prompt: str = ""
    limits: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
