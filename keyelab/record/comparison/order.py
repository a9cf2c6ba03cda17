"""The order in which differences are told: what explains the outcome first.

The explained phase is the first one, in the order of the pipeline, that ended well in one record
and badly in the other, or badly in both with another sentence. When there is none, it is the last
phase, which holds the numbers.

1. What the explained phase can have got comes before what it cannot: its own parameters and
   notebook (distance 0), parameters and results of the phases that it needs (1), of those that
   they need (2), and so on. Parameters of all phases have distance 0; keyelab's version and commit
   that of the nearest notebook that they changed, else they come last. The machine, as the first
   phase found it, is there for every phase. What a phase does not need comes after that; what it
   left itself, answers, and what came later are no causes but results.
2. At one distance: parameters, which a person chose; then keyelab's code; then everything else.
3. Then the order of the pipeline.

When no outcome differs, parameters that only steer a run (time limits, jobs, names) come after
the others: they change no number. What follows from a difference is told under it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keyelab.record.comparison.difference import Difference, grouped
from keyelab.record.comparison.side import Side, mapping
from keyelab.record.comparison.statement import Statement

Needs = Mapping[str, Sequence[str]]
STEERING = {
    "workdir", "env_check.min_memory_gib", "env_check.min_disk_gib", "env_check.disk_probe_mib",
    "build.jobs", "build.reuse", "serve.alias", "serve.ready_timeout_s", "serve.keep_server",
    "serve.max_starts_per_hour", "video_test.timeout_s", "video_test.max_download_mib",
    "video_test.expect", "video_test.min_score", "perf_analysis.ttft_limit_s",
    "perf_analysis.token_limit_ms",
}  # fmt: skip
_WELL = {"passed", "warned", "skipped"}
_BADLY = {"failed", "interrupted"}
_KINDS = {"parameters": 0, "keyelab": 1}


def explained(a: Side, b: Side, needs: Needs) -> str | None:
    """The phase whose outcome has to be explained; None when no outcome differs."""
    for phase in needs:
        one, other = status(a, phase), status(b, phase)
        bad = {one, other} & _BADLY
        if bad and ({one, other} & _WELL or _plain(a, phase) != _plain(b, phase)):
            return phase
    return None


def status(side: Side, phase: str) -> str:
    """How a phase ended; 'not run' when the record does not say."""
    return str(side.phases.get(phase, {}).get("status") or "not run")


def failure(side: Side, phase: str) -> str:
    """The sentence that a phase failed with; '' when it did not."""
    return str(mapping(side.phases.get(phase, {}).get("failure")).get("message") or "")


def _plain(side: Side, phase: str) -> str:
    """The sentence without what every run has of its own: its id, ports, processes, scratch."""
    text = failure(side, phase).replace(str(side.run.get("run_id")), "RUN")
    return re.sub(r"(/tmp/\S*|(?<=port )\d+|(?<=pid )\d+|(?<=:)\d{4,5}\b)", "X", text)


def distances(phase: str, needs: Needs) -> dict[str, int]:
    """How many steps upstream of a phase the ones are that it needs; 0 for itself."""
    found, level, front = {"": 0, phase: 0}, 0, [phase]
    while front:
        level += 1
        front = [n for name in front for n in needs.get(name, ()) if n not in found]
        found |= dict.fromkeys(front, level)
    return found


@dataclass(frozen=True)
class Order:
    """Differences by their part: causes nearest first, what is no input, and what came of it."""

    causes: list[Difference]
    unrelated: list[Difference]
    results: list[Difference]


def ordered(differences: Sequence[Difference], phase: str | None, needs: Needs) -> Order:
    """Differences by what they have to do with a phase (None: no outcome differs)."""
    explains = phase or list(needs)[-1]
    far, places = distances(explains, needs), ["", *needs]

    def result(said: Statement) -> bool:
        if said.topic in _KINDS or said.phase not in places:
            return False
        seen = said.topic == "answer" or (phase is None and said.topic == "checks")
        return seen or places.index(said.phase) >= places.index(explains)

    def distance(one: Difference) -> int:
        if one.said.topic != "keyelab" or one.said.phase:
            return far.get(one.said.phase, max(far.values()) + 1)
        changed = (two.said.phase for two in one.followers)
        notebooks = [far[phase] for phase in changed if phase and phase in far]
        return min(notebooks, default=max(far.values()) + 1)

    def rank(one: Difference) -> tuple[bool, int, int, int]:
        steering = phase is None and one.said.name in STEERING
        place = places.index(one.said.phase) if one.said.phase in places else len(places)
        return steering, distance(one), _KINDS.get(one.said.topic, 2), place

    def needed(said: Statement) -> bool:
        found = said.phase == places[1] and said.topic not in _KINDS
        return found or said.phase in far

    roots = sorted(grouped(one for one in differences if not result(one.said)), key=rank)
    return Order(
        [one for one in roots if needed(one.said)],
        [one for one in roots if not needed(one.said)],
        grouped(one for one in differences if result(one.said)),
    )
