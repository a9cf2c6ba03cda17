"""What differs between two records, each difference under the one that it follows from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from keyelab.record.comparison.statement import Statement


@dataclass
class Difference:
    """Two values of one statement, and the differences that follow from it."""

    said: Statement
    a: Any
    b: Any
    sources: tuple[str, str] = ("", "")
    followers: list[Difference] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The difference as JSON."""
        return {
            "key": self.said.key,
            "topic": self.said.topic,
            "phase": self.said.phase,
            "name": self.said.name,
            "a": self.a,
            "b": self.b,
            "sources": list(self.sources),
            "follows": [one.to_dict() for one in self.followers],
        }


@dataclass(frozen=True)
class Pairs:
    """All statements of two records: what differs, what one does not know, what is equal."""

    differences: list[Difference]
    unknown: list[Difference]
    equal: list[str]
    elsewhere: list[Difference]


def pairs(
    a: Mapping[str, Statement],
    b: Mapping[str, Statement],
    same: Callable[[Any, Any], bool] = operator.eq,
) -> Pairs:
    """Compare what both records say.

    What one record alone says is unknown for the other. Where a phase of it says nothing at all it
    did not get there, and nothing is told. A check that one alone has is a difference, unless it
    passed. `equal` are topics in which nothing differs and nothing is unknown; `elsewhere` are
    parameters with the same value from another place.
    """
    found = Pairs([], [], [], [])
    topics: dict[str, bool] = {}
    both = _places(a) & _places(b)
    for key in dict.fromkeys([*a, *b]):
        one, other = a.get(key), b.get(key)
        said = one or other
        if said is None or (said.topic, said.phase) not in both:
            continue
        difference = Difference(
            said,
            one.value if one else None,
            other.value if other else None,
            (one.source if one else "", other.source if other else ""),
        )
        if not (one and other) and (said.optional or said.topic == "checks"):
            if said.optional:
                continue
            found.differences.append(difference)
        elif same(difference.a, difference.b):
            if difference.a is not None:
                topics.setdefault(said.topic, True)
            if difference.sources[0] != difference.sources[1]:
                found.elsewhere.append(difference)
            continue
        elif difference.a is None or difference.b is None:
            found.unknown.append(difference)
        else:
            found.differences.append(difference)
        topics[said.topic] = False
    found.equal.extend(topic for topic, plain in topics.items() if plain)
    return found


def _places(said: Mapping[str, Statement]) -> set[tuple[str, str]]:
    return {(one.topic, one.phase) for one in said.values()}


def grouped(differences: Iterable[Difference]) -> list[Difference]:
    """The differences that follow from no other one, with the others below them."""
    earlier: list[Difference] = []
    roots: list[Difference] = []
    for one in differences:
        cause = next(
            (
                other
                for pattern in one.said.follows
                for other in earlier
                if fnmatchcase(other.said.key, pattern)
            ),
            None,
        )
        (cause.followers if cause else roots).append(one)
        earlier.append(one)
    return roots
