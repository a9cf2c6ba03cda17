"""Two values in the words of a reader: digests short, and of collections what differs in them."""

from __future__ import annotations

import json
import re
from typing import Any

NONE = "—"
CHANCE_SAID = "one measurement each: two runs of the same can lie so far apart"
_ANSWER = 300  # characters of an answer
_SHOWN = 5  # of the repeated measurements that differ
_DIGEST = re.compile(r"[0-9a-f]{40,64}")


def said(value: Any) -> str:
    """A value as a reader's text; None is unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(said(one) for one in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={said(one)}" for name, one in value.items()) or "none"
    text = value if isinstance(value, str) else json.dumps(value)
    if "\n" in text.strip():
        return f"{len(text.splitlines())} lines"
    return text[:12] if _DIGEST.fullmatch(text) else text or "empty"


def changes(difference: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(what of it, A, B) of a difference: one row, or one for each entry that differs."""
    a, b = difference["a"], difference["b"]
    if difference["topic"] == "answer" and isinstance(a, str) and isinstance(b, str):
        return [("", _short(a), _short(b))]
    if difference["name"].startswith("notebook of"):
        changed = sum(cell not in a for cell in b)
        return [("", f"{len(a)} cells", f"{len(b)} cells, {changed} of them other")]
    if isinstance(a, dict) and isinstance(b, dict):
        names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
        return [(name, _entry(a, name), _entry(b, name)) for name in names]
    if isinstance(a, list) and isinstance(b, list) and len(a) + len(b) > 2:
        first = [value for value in a if value not in b]
        second = [value for value in b if value not in a]
        if first or second:
            return [("alone here", said(first), said(second))]
    one, other = said(a), said(b)
    if one == other:  # too short to tell them apart
        one, other = json.dumps(a, ensure_ascii=False), json.dumps(b, ensure_ascii=False)
    return [("", one, other)]


def _short(text: str) -> str:
    words = " ".join(text.split())
    return (words if len(words) <= _ANSWER else f"{words[:_ANSWER]} …") or "empty"


def _entry(values: dict[str, Any], name: str) -> str:
    return said(values[name]) if name in values else NONE


def named(difference: dict[str, Any]) -> str:
    """A difference's name: a parameter as --set takes it, else topic and name."""
    name, topic = difference["name"], difference["topic"]
    return str(name) if topic in ("parameters", "checks") or name == topic else f"{topic}: {name}"


def from_where(difference: dict[str, Any]) -> str:
    """Where a parameter's two values are from; '' for everything else."""
    one, other = (source.rpartition("/")[2] for source in difference["sources"])
    return f"{one} and {other}" if one != other else str(one)


def rounded(value: float | None) -> str:
    """A measured number with the three digits that it can have."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def swept(sweeps: dict[str, Any]) -> str:
    """What the repeated measurements of two runs say together."""
    effects = sweeps["effects"]
    seen = sum(one["verdict"].startswith("b is") for one in effects)
    allowed = " and ".join(sweeps["allowed"])
    other = f"; they are not of the same {allowed}" if allowed else ""
    return (
        f"repeated measurements: {seen} of {len(effects)} differ beyond the scatter inside a run, "
        f"whose repetitions share its luck (keyelab perf --compare shows all){other}"
    )


def most_apart(sweeps: dict[str, Any]) -> list[dict[str, Any]]:
    """The repeated measurements that differ most, those first."""
    seen = [one for one in sweeps["effects"] if one["verdict"].startswith("b is")]
    return sorted(seen, key=lambda one: -max(one["ratio"], 1 / one["ratio"]))[:_SHOWN]
