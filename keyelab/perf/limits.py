"""How near measured speeds come to what memory and arithmetic allow (the roofline)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.perf.machine import Machine
from keyelab.perf.shape import Shape

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A measured phase: operations per byte, operations per second, and the roof over it.

    `bound` is memory or arithmetic, whichever is lower there; `fraction` is measured over roof.
    """

    label: str
    intensity: float
    flops_per_s: float
    roof_flops_per_s: float | None
    bound: str
    fraction: float | None


def point(label: str, flops: float, nbytes: float, seconds: float, machine: Machine) -> Point:
    """A phase that computed `flops` and moved `nbytes` in `seconds`."""
    memory, arithmetic = machine.near_bytes_per_s, machine.flops_per_s
    roofs = {
        "memory": None if memory is None else memory * flops / nbytes,
        "arithmetic": arithmetic,
    }
    known = {name: roof for name, roof in roofs.items() if roof}
    bound = min(known, key=known.__getitem__) if len(known) == 2 else "unknown"
    if len(known) == 1 and "memory" in known:
        bound = "memory"  # decoding alone is never near the other one
    roof = known.get(bound)
    rate = flops / seconds
    return Point(label, flops / nbytes, rate, roof, bound, roof and rate / roof)


def points(shape: Shape, machine: Machine, measured: Sequence[Row]) -> list[Point]:
    """Decoding and reading of a prompt at the depths of a sweep (medians, see `depth.spread`).

    A prompt is taken to read the weights once, and all experts: it has enough tokens for each.
    """
    found = []
    for row in measured:
        depth = row["depth_tokens"]
        flops, nbytes = shape.step_flops(depth), shape.step_bytes(depth)
        if row["ms_per_token"] and flops and nbytes:
            seconds = row["ms_per_token"] / 1000
            label = f"{row['way']}: decode at {row['context_tokens']:,.0f}"
            found.append(point(label, flops, nbytes, seconds, machine))
        tokens, tps = row.get("prompt_tokens"), row["prefill_tps"]
        before = row["context_tokens"] if row["way"] == "llama-bench" else 0
        flops = shape.prompt_flops(before + (tokens or 0) / 2)
        if tps and tokens and flops:
            label = f"{row['way']}: prompt at {before + tokens:,.0f}"
            found.append(
                point(label, flops * tokens, shape.weight_bytes, tokens / tps, machine)
            )  # fmt: skip
    return found


def rows(found: Sequence[Point]) -> list[Row]:
    """Points as a table."""
    return [
        {
            "phase": one.label,
            "FLOP per byte": one.intensity,
            "GFLOP/s": one.flops_per_s / 1e9,
            "roof (GFLOP/s)": one.roof_flops_per_s and one.roof_flops_per_s / 1e9,
            "bound by": one.bound,
            "reached (%)": one.fraction and 100 * one.fraction,
        }
        for one in found
    ]
