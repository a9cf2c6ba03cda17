"""What an expression can be: symbols, operators, and sets of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from keyelab.patching.cuda.syntax import Unreadable

# every value | every value of an interval | nothing is known; the empty set: never computed
Values = frozenset[int] | range | None
NEVER: Values = frozenset()
EITHER: Values = frozenset((0, 1))
_MOST = 4096
_OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Symbol:
    """A name whose value nobody needs to know, like an enumerator: it equals only itself."""

    name: str

    def __bool__(self) -> bool:
        raise Unreadable(f"the value of {self.name} is not known")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Symbol) != isinstance(right, Symbol):
        raise Unreadable(f"{left} compared with {right}")
    return bool(left == right)


def _divide(left: Any, right: Any) -> Any:
    return left // right if isinstance(left, int) and isinstance(right, int) else left / right


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": _same,
    "!=": lambda left, right: not _same(left, right),
    "/": _divide,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def only(value: int) -> Values:
    """The set of one value."""
    return frozenset((value,))


def union(several: Iterable[Values]) -> Values:
    """Everything that one of several can be."""
    return reduce(_either, several, NEVER)


def _either(left: Values, right: Values) -> Values:
    if left is None or right is None:
        return None
    if not left or not right:
        return left or right
    if isinstance(left, range) or isinstance(right, range) or len(left) + len(right) > _MOST:
        return range(min(least(left), least(right)), max(most(left), most(right)) + 1)
    return left | right


def least(values: frozenset[int] | range) -> int:
    """The smallest of some values; 0 of none."""
    return values.start if isinstance(values, range) else min(values, default=0)


def most(values: frozenset[int] | range) -> int:
    """The greatest of some values; 0 of none."""
    return values.stop - 1 if isinstance(values, range) else max(values, default=0)


def combine(sign: str, left: Values, right: Values) -> Values:
    """The values of `left sign right`, for a sign of C, min or max; no operand is negative."""
    if sign in ("&&", "||"):
        decides = int(sign == "||")
        sides = [truth(left), truth(right)]
        if only(decides) in sides:
            return only(decides)
        return only(1 - decides) if sides == [only(1 - decides)] * 2 else EITHER
    if left is None or right is None:
        known = right if left is None else left
        if sign in _OPPOSITE:
            return EITHER
        if known and (sign in ("&", "min") or (sign == "%" and known is right)):
            return range(most(known) + (sign != "%"))
        return None
    function = {"min": min, "max": max}.get(sign) or BINARY[sign]
    if len(left) * len(right) <= _MOST:
        return frozenset(_each(function, left, right))
    ends = _each(function, (least(left), most(left)), (least(right), most(right)))
    if sign in _OPPOSITE:
        return EITHER
    return range(min(ends), max(ends) + 1) if ends and sign not in "&|%" else None


def truth(values: Values) -> Values:
    """As a condition: a set of 0 and 1."""
    if values is None or len(values) > 2:
        return EITHER
    return frozenset(int(bool(value)) for value in values)


def limited(values: Values, sign: str, other: Values, holds: bool = True) -> Values:
    """The values for which `value sign other` can hold (or, not `holds`, can fail)."""
    sign = sign if holds else _OPPOSITE[sign]
    if not other or (sign == "!=" and len(other) > 1):
        return values
    if values is None:
        upper = {"==": 1, "<": 0, "<=": 1}.get(sign)
        return None if upper is None else other if sign == "==" else range(most(other) + upper)
    if isinstance(values, range):
        low, high = values.start, values.stop
        if sign in ("<", "<=", "=="):
            high = min(high, most(other) + (sign != "<"))
        if sign in (">", ">=", "=="):
            low = max(low, least(other) + (sign == ">"))
        return range(low, high)
    if sign == "==":
        return frozenset(v for v in values if v in other)
    end = most(other) if sign in ("<", "<=") else least(other)
    return frozenset(v for v in values if BINARY[sign](v, end))


def _each(
    function: Callable[[int, int], int], left: Collection[int], right: Collection[int]
) -> set[int]:
    found = set()
    for a in left:
        for b in right:
            try:
                found.add(int(function(a, b)))
            except (ArithmeticError, ValueError):
                continue  # a division by zero or a negative shift: never computed
    return found
