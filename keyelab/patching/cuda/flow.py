"""What a local variable can be: its first value, assignments in branches, and loops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import Body, Local
from keyelab.patching.cuda.bounds import Bounds, Scope
from keyelab.patching.cuda.nodes import within
from keyelab.patching.cuda.values import NEVER, Values, combine, only, truth, union
from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_ROUNDS = 64


class Flow(Bounds):
    """The values of local variables."""

    def _local(self, name: str, local: Local, node: Node, scope: Scope) -> Values:
        values = self.of(local.first, scope) if local.first is not None else NEVER
        looped: set[Node] = set()
        for change in self._changes(name, scope):
            if change.start_byte < local.node.start_byte or not within(change, local.block):
                continue
            loop = self.body(scope.function).loop(change, local) if scope.function else None
            if loop is not None and (change.start_byte < node.start_byte or within(node, loop)):
                if loop not in looped:
                    values = self._looped(name, loop, values, node, scope)
                looped.add(loop)
            elif loop is None and change.start_byte < node.start_byte:
                values = self._changed(name, change, values, node, scope)
        return values or None if local.first is None else values  # written through its address

    def _changes(self, name: str, scope: Scope) -> list[Node]:
        return self.body(scope.function).assigned.get(name, []) if scope.function else []

    def _changed(self, name: str, change: Node, now: Values, node: Node, scope: Scope) -> Values:
        """The values at `node` after an assignment that may stand in a branch of its own."""
        body = self.body(scope.function) if scope.function else Body(change)
        here = {guard.branch for guard in body.guard(node) or ()}
        own = [g for g in body.guard(change) or () if not g.asserted and g.branch not in here]
        if any((g.condition, not g.holds, g.cases) in here for g in own):
            return now
        inner = scope.choosing(name, now)
        holds = [self._holds(guard, inner) for guard in own]
        if any(1 not in (h or ()) for h in holds):
            return now
        new = self._new(change, inner)
        return new if all(h == only(1) for h in holds) else union(now, new)

    def _new(self, change: Node, scope: Scope) -> Values:
        sign = text_of(change.child_by_field_name("operator"))
        if change.type == "update_expression":
            return combine(sign[0], self.of(change.child_by_field_name("argument"), scope), only(1))
        right = self.of(change.child_by_field_name("right"), scope)
        if sign == "=":
            return right
        return combine(sign[:-1], self.of(change.child_by_field_name("left"), scope), right)

    def _looped(self, name: str, loop: Node, start: Values, node: Node, scope: Scope) -> Values:
        """The values in the loop, where `node` is in its body, or behind it."""
        changes = [c for c in self._changes(name, scope) if within(c, loop)]
        condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
        if not any(_needs(change, name) for change in changes):
            for change in changes:
                start = union(start, self._new(change, scope))
            return start
        if start is None or condition is None:
            return None
        todo, inside, behind = list(start), set[int](), set[int]()
        while todo and len(inside) < _ROUNDS:
            value = todo.pop()
            if value in inside:
                continue
            holds = truth(self.of(condition, scope.choosing(name, only(value)))) or ()
            behind |= {value} if 0 in holds else set()
            if 1 in holds:
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
    right = change.child_by_field_name("right")
    sign = text_of(change.child_by_field_name("operator"))
    return sign != "=" or bool(re.search(rf"\b{re.escape(name)}\b", text_of(right)))
