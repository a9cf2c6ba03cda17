"""What an expression can be at a place in a function, by the branches that lead there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import Body, Local
from keyelab.patching.cuda.guards import Guard, Limit
from keyelab.patching.cuda.kernels import Function, Kernels
from keyelab.patching.cuda.nodes import plain
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
from keyelab.patching.macros import Unreadable, expression, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 60
_WRAPPERS = {"parenthesized_expression", "condition_clause", "type_descriptor"} | {
    "comma_expression",
    "parameter_declaration",
}
_COMPARED = {
    "identifier",
    "type_identifier",
    "field_expression",
    "subscript_expression",
    "binary_expression",
}
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_NEED_BOTH = {"+", "-", "*", "/", "<<", ">>", "|"}
_CONSTANT = re.compile(r"decltype\((\w+)\)::value")


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
        self.missing = ""
        self._bodies: dict[Node, Body] = {}
        self._known: dict[tuple[Node, Scope], Values] = {}
        self._open: dict[tuple[Guard, Scope], bool] = {}
        self._depth = 0

    def body(self, function: Function) -> Body:
        """The names of a function, read once."""
        if function.node not in self._bodies:
            self._bodies[function.node] = Body(function.node)
        return self._bodies[function.node]

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
            if node.type in _COMPARED and scope.function:
                found = self._guarded(found, node, scope)
            self._depth -= 1
            self._known[key] = found
            if found is None and node.type in ("identifier", "subscript_expression"):
                self.missing = text_of(node)
        return self._known.get(key)

    def reachable(self, node: Node, scope: Scope) -> bool:
        """False when a branch that leads to `node` is never taken."""
        guard = self.body(scope.function).guard(node) if scope.function else None
        chain = list(guard or ())
        for guard in reversed(chain):
            if (guard, scope) not in self._open:
                before = guard.before is None or self._open[guard.before, scope]
                self._open[guard, scope] = before and (
                    guard.asserted or 1 in (self._holds(guard, scope) or ())
                )
        return not chain or self._open[chain[0], scope]

    def _holds(self, guard: Guard, scope: Scope) -> Values:
        values = self.of(guard.condition, scope)
        if guard.cases:
            wanted = self._any(guard.cases, scope)
            if values is None or wanted is None:
                return EITHER
            hits = [v in wanted for v in values]
            values = frozenset(map(int, hits))
        return truth(values) if guard.holds else combine("==", truth(values), only(0))

    def _any(self, nodes: tuple[Node, ...], scope: Scope) -> Values:
        values = NEVER
        for node in nodes:
            values = union(values, self.of(node, scope))
        return values

    def _guarded(self, values: Values, node: Node, scope: Scope) -> Values:
        """The values that the branches around the node, and around the place, leave over."""
        body = self.body(scope.function) if scope.function else None
        text = plain(node)
        if body is None or (node.type == "binary_expression" and "/" not in text):
            return values
        for guard in (body.guard(node), body.guard(scope.place) if scope.place else None):
            for stated, alternatives in guard.about(text) if guard else ():
                if not body.changed(text, node, stated.condition):
                    for limits in alternatives:
                        values = self._limited(values, limits, scope)
        return self._promised(values, node, scope)

    def _promised(self, values: Values, node: Node, scope: Scope) -> Values:
        """What is left of the values by what is known from outside the function."""
        return values

    def _limited(self, values: Values, limits: list[Limit], scope: Scope) -> Values:
        kept = NEVER
        for sign, other, holds in limits:
            kept = union(kept, limited(values, sign, self.of(other, scope), holds))
        return kept

    def _read(self, node: Node, scope: Scope) -> Values:
        kind = node.type
        if kind in _WRAPPERS:
            return self.of(node.named_children[-1], scope) if node.named_children else None
        if kind == "number_literal":
            number = _NUMBER.match(text_of(node).replace("'", ""))
            return only(int(number[0], 0)) if number else None
        if kind in ("true", "false"):
            return only(int(kind == "true"))
        if kind in ("identifier", "type_identifier"):
            return self._name(node, text_of(node), scope)
        if kind == "cast_expression":
            return self.of(node.child_by_field_name("value"), scope)
        if kind == "unary_expression":
            values, sign = self.of(node.child_by_field_name("argument"), scope), text_of(node)[0]
            if sign == "!":
                return combine("==", truth(values), only(0))
            return values if sign == "+" else combine("-", only(-(sign == "~")), values)
        if kind == "binary_expression":
            sign = text_of(node.child_by_field_name("operator"))
            left = self.of(node.child_by_field_name("left"), scope)
            if (sign, truth(left)) in (("&&", only(0)), ("||", only(1))):
                return truth(left)
            if left is None and sign in _NEED_BOTH:
                return None
            return combine(sign, left, self.of(node.child_by_field_name("right"), scope))
        if kind == "conditional_expression":
            holds = truth(self.of(node.child_by_field_name("condition"), scope)) or ()
            names = [n for v, n in ((1, "consequence"), (0, "alternative")) if v in holds]
            parts = [self.of(node.child_by_field_name(name), scope) for name in names]
            return union(parts[0], parts[-1]) if parts else NEVER
        if kind == "call_expression":
            return self._result(node, scope)
        if kind == "field_expression":
            return self._member(node, scope)
        constant = _CONSTANT.fullmatch(plain(node)) if kind == "qualified_identifier" else None
        return self._name(node, constant[1], scope) if constant else None

    def _name(self, node: Node, name: str, scope: Scope) -> Values:
        if name in scope.chosen:
            return scope.chosen[name]
        function, outside = scope.function, Scope(None, scope.file)
        macro = self.kernels.macros[scope.file].get(name)
        if macro is not None and macro.parameters is None:
            return self._text(macro.body, outside)
        if function is not None:
            if (local := self.body(function).local(name, node)) is not None:
                return self._local(name, local, node, scope)
            given = self._given(name, node, scope)
            if given is not NEVER:
                return given
        if name in self.kernels.enumerators:
            return only(self.kernels.enumerators[name])
        return self.of(self.kernels.constants.get(name), outside)

    def _local(self, name: str, local: Local, node: Node, scope: Scope) -> Values:
        """The values of a local variable at a node."""
        raise NotImplementedError

    def _given(self, name: str, node: Node, scope: Scope) -> Values:
        """The values of a parameter; NEVER when `name` is none."""
        raise NotImplementedError

    def _result(self, node: Node, scope: Scope) -> Values:
        """The values of a call."""
        raise NotImplementedError

    def _member(self, node: Node, scope: Scope) -> Values:
        """The values of a member of a structure."""
        raise NotImplementedError

    def _text(self, text: str, scope: Scope) -> Values:
        try:
            return self.of(expression(text), scope)
        except Unreadable:
            return None
