"""Two records held against each other: what differs, ordered by what explains the outcome.

Nothing is asked of the records but a run.json: another target or schema, a shared copy, an
interrupted or edited run are compared as far as they say something.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Callable
from typing import Any

from keyelab.files import shown
from keyelab.record.comparison.alias import alike
from keyelab.record.comparison.difference import Difference, pairs
from keyelab.record.comparison.diffs import diff_of_diffs
from keyelab.record.comparison.number import CHANCE, number, numbers
from keyelab.record.comparison.order import Needs, explained, failure, ordered, status
from keyelab.record.comparison.side import Side, mapping
from keyelab.record.comparison.statement import statements

SCHEMA = 1
Sweeps = Callable[[Side, Side], "dict[str, Any] | None"]
Content = dict[str, Any]


def diff(a: Side, b: Side, needs: Needs, sweeps: Sweeps) -> Content:
    """The differences of two records as JSON; `keyelab diff --help` says what the keys hold.

    `needs` are the phases in their order with the ones that each needs; `sweeps` compares the
    repeated measurements of two records (None when one has none).
    """
    phase = explained(a, b, needs)
    same = alike if a.copied or b.copied else operator.eq
    found = pairs(statements(a), statements(b), same)
    order = ordered(found.differences, phase, needs)
    outcomes = [_outcome(name, a, b) for name in needs]
    measured = [one.to_dict() for one in numbers(a, b)]
    swept = sweeps(a, b)
    content: Content = {
        "schema": SCHEMA,
        "a": _head(a),
        "b": _head(b),
        "explained": phase,
        "outcomes": [one for one in outcomes if one["a"] != one["b"] or one["phase"] == phase],
        "failures": {"a": _failure(a, needs), "b": _failure(b, needs)},
        "causes": _dicts(order.causes),
        "unrelated": _dicts(order.unrelated),
        "results": _dicts(order.results),
        "numbers": measured,
        "sweeps": swept,
        "patches": diff_of_diffs(a, b),
        "equal": found.equal,
        "unknown": _dicts(found.unknown),
        "other_source": _dicts(found.elsewhere),
        "notebooks": _notebooks(a, b, [one.said.phase for one in found.differences], outcomes),
    }
    told = ("outcomes", "causes", "unrelated", "results")
    content["differs"] = (
        any(content[name] for name in told)
        or any(one["matters"] for one in measured)
        or any(map(_beyond_chance, (swept or {}).get("effects", [])))
    )
    return content


def _beyond_chance(effect: Content) -> bool:
    """Whether the interval of a ratio lies beyond what two runs of the same can lie apart."""
    low, high = effect["low"], effect["high"]
    return low is not None and (low > CHANCE or high < 1 / CHANCE)


def _head(side: Side) -> Content:
    run, tool = side.run, mapping(side.run.get("tool"))
    return {
        "folder": shown(side.folder),
        **{name: _text(run.get(name)) for name in ("run_id", "target", "status", "started")},
        "duration_s": number(run.get("duration_s")),
        "keyelab": {name: _text(tool.get(name)) for name in ("version", "commit")},
        "doubts": side.doubts,
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _outcome(phase: str, a: Side, b: Side) -> dict[str, str]:
    reasons = (str(side.phases.get(phase, {}).get("reason") or "") for side in (a, b))
    one, other = status(a, phase), status(b, phase)
    reason = "; ".join(dict.fromkeys(r for r in reasons if r)) if "not run" in (one, other) else ""
    return {"phase": phase, "a": one, "b": other, "reason": reason}


def _failure(side: Side, needs: Needs) -> Content | None:
    for phase in needs:
        told = mapping(side.phases.get(phase, {}).get("failure"))
        if told:
            named = {name: told.get(name) for name in ("kind", "cell", "log")}
            ended = {"phase": phase, "status": status(side, phase)}
            return {**ended, **named, "message": failure(side, phase)}
    return None


def _dicts(differences: list[Difference]) -> list[Content]:
    return [one.to_dict() for one in differences]


def _notebooks(a: Side, b: Side, differing: list[str], outcomes: list[dict[str, str]]) -> list[str]:
    """Commands that show the notebooks of phases with another source, parameter or outcome."""
    names = {*differing, *(one["phase"] for one in outcomes if one["a"] != one["b"])}
    commands = []
    for phase in (one["phase"] for one in outcomes if one["phase"] in names):
        paths = [side.folder / str(side.phases.get(phase, {}).get("notebook")) for side in (a, b)]
        if all(path.is_file() for path in paths):
            commands.append(shlex.join(["nbdiff-web", *(shown(path) for path in paths)]))
    return commands
