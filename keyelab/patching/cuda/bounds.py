"""What an expression can be at a place in a function, by the branches that lead there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import Body, Guard, Limit, Local
from keyelab.patching.cuda.kernels import Function, Kernels
from keyelab.patching.cuda.ops import Ops
from keyelab.patching.cuda.syntax import plain, sign_of, text_of, within
from keyelab.patching.cuda.values import (
    EITHER,
    NEVER,
    Values,
    combine,
    limited,
    only,
    truth,
    union,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 60
_ROUNDS = 64
_COMPARED = {
    "identifier",
    "type_identifier",
    "field_expression",
    "subscript_expression",
    "binary_expression",
}


@dataclass(frozen=True, eq=False)
class Scope:
    """A function at work: its call, the place looked from, and values already chosen.

    Without a call every call of the function counts. What the branches around `place` say holds
    for all names that do not change.
    """

    function: Function | None
    file: str
    call: Node | None = None
    caller: Scope | None = None
    place: Node | None = None
    chosen: dict[str, Values] = field(default_factory=dict)

    @property
    def side(self) -> str:
        """The compiler pass that works here: host or device."""
        passes = self.function.passes if self.function else frozenset({"host", "device"})
        if len(passes) == 1:
            return next(iter(passes))
        return self.caller.side if self.caller else "host"

    def choosing(self, name: str, values: Values) -> Scope:
        """The same with the values of one more name chosen."""
        return replace(self, chosen={**self.chosen, name: values})


class Bounds:
    """The values of expressions; `missing` is the last name that stopped it."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.ops = Ops(kernels)
        self.missing = ""
        self._bodies: dict[Node | None, Body] = {}
        self._known: dict[tuple[Node, Scope], Values] = {}
        self._open: dict[tuple[Guard, Scope], bool] = {}
        self._depth = 0

    def body(self, function: Function | None) -> Body:
        """The names of a function, read once."""
        node = function.node if function else None
        if node not in self._bodies:
            self._bodies[node] = Body(node)
        return self._bodies[node]

    def of(self, node: Node | None, scope: Scope) -> Values:
        """Every value that `node` can have; None when nothing is known."""
        if node is None:
            return None
        if scope.chosen and (text := plain(node)) in scope.chosen:
            return scope.chosen[text]
        key = (node, scope)
        if key not in self._known and self._depth < _DEEPEST:
            self._known[key] = None  # while it is being looked for
            self._depth += 1
            found = self._read(node, scope)
            if node.type in _COMPARED:
                found = self._guarded(found, node, scope)
            self._depth -= 1
            self._known[key] = found
            if found is None and node.type in ("identifier", "subscript_expression"):
                self.missing = text_of(node)
        return self._known.get(key)

    def _read(self, node: Node, scope: Scope) -> Values:
        """The values by what the expression is made of."""
        raise NotImplementedError

    def reachable(self, node: Node, scope: Scope) -> bool:
        """False when a branch that leads to `node` is never taken."""
        for guard in self.body(scope.function).guards(node):
            if (guard, scope) not in self._open:
                taken = guard.asserted or 1 in (self._holds(guard, scope) or ())
                self._open[guard, scope] = taken
            if not self._open[guard, scope]:
                return False
        return True

    def _holds(self, guard: Guard, scope: Scope) -> Values:
        values = self.of(guard.condition, scope)
        if guard.cases:
            wanted = union(self.of(case, scope) for case in guard.cases)
            if values is None or wanted is None:
                return EITHER
            values = frozenset(int(v in wanted) for v in values)
        return truth(values) if guard.holds else combine("==", truth(values), only(0))

    def _guarded(self, values: Values, node: Node, scope: Scope) -> Values:
        """What the branches around the node and around the place leave, and what is promised."""
        body, text = self.body(scope.function), plain(node)
        if node.type == "binary_expression" and "/" not in text:
            return values
        for place in (node, scope.place):
            for guard in body.guards(place) if place else ():
                limits = guard.limits.get(text, [])
                if limits and not body.changed(text, node, guard.condition):
                    values = self._limited(values, limits, scope)
        return self._promised(values, node, scope)

    def _limited(self, values: Values, limits: list[list[Limit]], scope: Scope) -> Values:
        for alternatives in limits:
            values = union(
                limited(values, sign, self.of(other, scope), holds)
                for sign, other, holds in alternatives
            )
        return values

    def _promised(self, values: Values, node: Node, scope: Scope) -> Values:
        """The values that supports_op lets through, where it tells of this member of a tensor."""
        name = re.match(r"\w+", text := plain(node))
        if node.type != "subscript_expression" or scope.function is None or name is None:
            return values
        served = self.ops.limits(scope.function.name)
        local = self.body(scope.function).local(name[0], node)
        if not served or local is None:
            return values
        wanted = (plain(local.value) + text[name.end() :]).replace("dst->", "op->", 1)
        promised = [[x for g in guards for x in g.limits.get(wanted, ())] for guards in served]
        return union(self._limited(values, one, Scope(None, scope.file)) for one in promised)

    def _local(self, name: str, local: Local, node: Node, scope: Scope) -> Values:
        """The values of a local variable at a node: the first, those of branches, of loops."""
        values = self.of(local.first, scope) if local.first is not None else NEVER
        looped: set[Node] = set()
        body = self.body(scope.function)
        for change in body.assigned.get(name, []):
            if change.start_byte < local.node.start_byte or not within(change, local.block):
                continue
            loop = body.loop(change, local)
            if loop is not None and (change.start_byte < node.start_byte or within(node, loop)):
                if loop not in looped:
                    values = self._looped(name, loop, values, node, scope)
                looped.add(loop)
            elif loop is None and change.start_byte < node.start_byte:
                values = self._changed(name, change, values, node, scope)
        return values or None if local.first is None else values  # written through its address

    def _changed(self, name: str, change: Node, now: Values, node: Node, scope: Scope) -> Values:
        """The values at `node` after an assignment that may stand in a branch of its own."""
        body = self.body(scope.function)
        here = set(body.guards(node))
        own = [g for g in body.guards(change) if not g.asserted and g not in here]
        if any(replace(guard, holds=not guard.holds) in here for guard in own):
            return now
        inner = scope.choosing(name, now)
        holds = [self._holds(guard, inner) for guard in own]
        if any(1 not in (h or ()) for h in holds):
            return now
        new = self._new(change, inner)
        return new if all(h == only(1) for h in holds) else union((now, new))

    def _new(self, change: Node, scope: Scope) -> Values:
        sign, (left, *rest) = sign_of(change), change.named_children
        if not rest:
            return combine(sign[0], self.of(left, scope), only(1))
        right = self.of(rest[-1], scope)
        return right if sign == "=" else combine(sign[:-1], self.of(left, scope), right)

    def _looped(self, name: str, loop: Node, start: Values, node: Node, scope: Scope) -> Values:
        """The values in the loop, where `node` is in its body, or behind it."""
        changes = [c for c in self.body(scope.function).assigned[name] if within(c, loop)]
        condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
        if not any(_needs(change, name) for change in changes):
            return union((start, *(self._new(change, scope) for change in changes)))
        if start is None or condition is None:
            return None
        todo, inside, behind = list(start), set[int](), set[int]()
        while todo and len(inside) < _ROUNDS:
            value = todo.pop()
            holds = truth(self.of(condition, scope.choosing(name, only(value)))) or ()
            behind |= {value} if 0 in holds else set()
            if 1 in holds and value not in inside:
                inside.add(value)
                after = only(value)
                for change in changes:
                    after = self._changed(name, change, after, loop, scope)
                if after is None:
                    return None
                todo += after
        if todo:
            return None
        if not within(node, loop):
            return frozenset(behind)
        in_body = body is not None and within(node, body)
        return frozenset(inside if in_body else inside | behind)


def _needs(change: Node, name: str) -> bool:
    """True when the new value is made from the old one."""
    right = change.named_children[-1]
    return sign_of(change) != "=" or bool(re.search(rf"\b{re.escape(name)}\b", text_of(right)))
