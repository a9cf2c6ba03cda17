"""What a transcript of the probe says about the card. Pure: text in, facts and reasons out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyelab.facts import ProbeFacts

# DTK's runtime prints this and goes on; what such a launch computes is undefined.
_OVER_BOUND = re.compile(r"Launch params .*larger than launch bounds \((\d+)\)")
# These say that the card was busy or the program was not for it, nothing about the launch.
_NOT_THE_LAUNCH = (
    "hipErrorOutOfMemory", "hipErrorNoBinaryForGpu", "hipErrorInvalidKernelFile",
    "hipErrorInvalidImage", "hipErrorInvalidDeviceFunction", "hipErrorNoDevice",
)  # fmt: skip
_MACRO = re.compile(
    r"^#define (__(?:gfx|GFX|AMDGCN|AMDGPU|amdgcn|HIP_DEVICE|DTK|HYGON|HCU|hcu|clang_major)\w*.*)$",
    re.MULTILINE,
)
_TRIAL_OF = {
    "runs_1024_plain": "plain-1024",
    "runs_1024_bound": "bound-1024",
    "runs_1024_flag": "flag-1024",
    "runs_512_bound": "bound-512",
}


@dataclass(frozen=True)
class Card:
    """The facts, and for each fact what it was read from or why it is unknown."""

    facts: ProbeFacts
    reasons: Mapping[str, str]

    @property
    def unknown(self) -> list[str]:
        """The facts about launches and dot products that the probe could not settle."""
        return [name for name in (*_TRIAL_OF, "dot") if getattr(self.facts, name) is None]

    def rows(self) -> list[dict[str, Any]]:
        """The facts as table rows."""
        values = self.facts.model_dump(exclude={"macros"})
        return [
            {
                "fact": name,
                "value": "unknown" if value is None else str(value),
                "because": self.reasons.get(name, ""),
            }
            for name, value in values.items()
        ]


def read(transcript: str) -> Card:
    """Read a transcript of `probe.transcript`; half of one leaves the rest unknown."""
    parts = re.split(r'^(?=\{"trial": )', transcript, flags=re.MULTILINE)
    trials = {str(said["trial"]): (said, part) for part in parts if (said := _objects(part))}
    macros = trials.pop("macros", ({}, ""))[1]
    control, text = trials.get("control", ({}, ""))
    seen, why = _verdict(control, text)
    last = list(trials)[-1] if trials else "its beginning"

    def tried(trial: str) -> tuple[bool | None, str]:
        if not seen:
            return None, why
        if trial not in trials:
            return None, f"not tried, the probe stopped at {last}"
        return _verdict(*trials[trial])

    facts: dict[str, Any] = {}
    reasons = dict.fromkeys(ProbeFacts.model_fields, why)
    if "arch" in control:
        facts["arch"] = _base(control["arch"])
        reasons["arch"] = f"{control.get('name')}, the first of {control.get('devices')}"
        for name in ("wavefront_lanes", "max_block_threads", "shared_block_bytes"):
            facts[name], reasons[name] = control.get(name), "device properties"
    if seen:
        facts["default_bound_threads"] = control.get("kernel_bound_threads")
        reasons["default_bound_threads"] = "attributes of a kernel without bounds"
    for name, trial in _TRIAL_OF.items():
        facts[name], reasons[name] = tried(trial)
    dots = {name: tried(name) for name in ("sdot4", "dot2")}
    answers = {answer for answer, _ in dots.values()}
    facts["dot"] = False if False in answers else None if None in answers else True
    if seen:
        reasons["dot"] = "; ".join(f"{name}: {said}" for name, (_, said) in dots.items())
    defined = _MACRO.findall(macros)
    facts["gfx9"] = any(line.startswith("__GFX9__ ") for line in defined) if defined else None
    reasons["gfx9"] = "the compiler's predefined macros"
    return Card(ProbeFacts(**facts, macros=defined), reasons)


def _objects(part: str) -> dict[str, Any]:
    """The JSON objects of one trial as one; a line that was cut off is no object."""
    found: dict[str, Any] = {}
    for line in part.splitlines():
        if line.startswith("{"):
            try:
                found |= json.loads(line)
            except ValueError:
                continue
    return found if "trial" in found else {}


def _base(arch: Any) -> str:
    return str(arch).split(":")[0]  # without features, as in gfx928:sramecc+:xnack-


def _verdict(said: Mapping[str, Any], text: str) -> tuple[bool | None, str]:
    """Whether a trial ran and computed right, None when that cannot be told, and why."""
    end, reason = said.get("end"), str(said.get("says", ""))
    if end is None:
        return None, "the transcript breaks off here" if said else "the probe was not run"
    if end.startswith("not built"):
        return (False if end.endswith("failed") else None), reason
    if "arch" in said and _base(said["arch"]) != _base(said["compiled_for"]):
        return None, f"the card is {_base(said['arch'])}, compiled for {said['compiled_for']}"
    if "launch_threads" not in said:
        return None, str(said.get("error", reason))
    status = said.get("status", "hipSuccess")
    if status in _NOT_THE_LAUNCH:
        return None, status
    over = _OVER_BOUND.search(text)
    if over:
        return False, f"the runtime says: larger than launch bounds ({over[1]})"
    if "slots" not in said:
        return (None if end == "ran" else False), reason.split(": {")[0] or "no result was printed"
    count = f"{said['right']:,} of {said['slots']:,} slots right"
    if status != "hipSuccess":
        return False, f"{status}; {count}"
    return (end == "ran" and said["right"] == said["slots"]), count
