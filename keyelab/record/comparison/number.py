"""Numbers of two records with their ratio, and how much can be said of it.

A number of one run is one measurement. Two runs of the same thing on a busy machine have differed
by a factor of 2.6 (keyelab/perf/compare.py): up to there a ratio may be chance, and beyond it is
told, but alone it makes no two records differ. Tokens are counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from keyelab.record.comparison.side import Side, mapping

CHANCE = 2.6  # times that two runs of the same have differed
CLOSE = 1.05
LEAST_S = 5.0  # durations of phases that differ by less are about the same
Verdict = Literal["equal", "about the same", "may be chance", "differs", "unknown"]


@dataclass(frozen=True)
class Number:
    """One number of both records; None is unknown. `ratio` is b / a."""

    name: str
    unit: str
    phase: str
    a: float | None
    b: float | None
    duration: bool = False

    @property
    def ratio(self) -> float | None:
        """b / a; None when one is unknown or not above 0."""
        if self.a is None or self.b is None or min(self.a, self.b) <= 0:
            return None
        return self.b / self.a

    @property
    def verdict(self) -> Verdict:
        """What can be said of the two: counts differ or not, measurements scatter."""
        if self.a is None or self.b is None:
            return "unknown"
        if self.a == self.b:
            return "equal"
        times = max(self.ratio, 1 / self.ratio) if self.ratio else math.inf
        if self.unit == "tokens":
            return "differs"
        if times <= CLOSE or (self.duration and abs(self.a - self.b) < LEAST_S):
            return "about the same"
        return "may be chance" if times <= CHANCE else "differs"

    @property
    def matters(self) -> bool:
        """Whether it is a difference of the records: of what was counted, not measured once."""
        return self.verdict == "differs" and self.unit == "tokens"

    def to_dict(self) -> dict[str, Any]:
        """The number as JSON."""
        more = {"ratio": self.ratio, "verdict": self.verdict, "matters": self.matters}
        return {**asdict(self), **more}


def numbers(a: Side, b: Side) -> list[Number]:
    """Speeds, waiting times, counts of tokens and durations that one of two records has."""
    one, other = dict(_measured(a)), dict(_measured(b))
    found = []
    for key in dict.fromkeys([*one, *other]):
        values = one.get(key), other.get(key)
        if values != (None, None):
            name, unit, phase = key
            found.append(Number(name, unit, phase, *values, duration=name.startswith("duration")))
    return found


def _measured(side: Side) -> Iterator[tuple[tuple[str, str, str], float | None]]:
    perf, server = side.facts("perf_analysis"), side.facts("serve")
    video = side.facts("video_test")
    usage = mapping(video.get("usage"))
    for name in ("decode", "prefill"):
        yield (name, "tokens/s", "perf_analysis"), number(perf.get(f"{name}_tps"))
    yield ("load", "s", "perf_analysis"), number(perf.get("load_s"))
    yield ("server ready", "s", "serve"), number(server.get("ready_s"))
    yield ("first token", "s", "video_test"), number(video.get("ttft_s"))
    yield ("whole answer", "s", "video_test"), number(video.get("total_s"))
    yield ("prompt", "tokens", "video_test"), number(usage.get("prompt_tokens"))
    yield ("answer", "tokens", "video_test"), number(usage.get("completion_tokens"))
    for phase, record in side.phases.items():
        if not record.get("reused_from"):
            yield (f"duration of {phase}", "s", phase), number(record.get("duration_s"))
    yield ("duration of the run", "s", ""), number(side.run.get("duration_s"))


def number(value: Any) -> float | None:
    """`value` if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
