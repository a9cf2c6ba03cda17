"""How many threads a block expression starts at most, through parameters, calls and structures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import LISTS
from keyelab.patching.cuda.bounds import Scope
from keyelab.patching.cuda.calls import VECTOR, Calls, Place
from keyelab.patching.cuda.syntax import arguments, called, plain, sign_of, text_of
from keyelab.patching.cuda.values import Values, combine, only, truth, union

if TYPE_CHECKING:
    from tree_sitter import Node

_AXES = ["x", "y", "z"]
_PAIR = ["first", "second"]
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_NEED_BOTH = {"+", "-", "*", "/", "<<", ">>", "|"}
_WRAPPERS = {"parenthesized_expression", "condition_clause", "type_descriptor"} | {
    "comma_expression",
    "parameter_declaration",
}


class Blocks(Calls):
    """The threads of a block expression, and what variables that are no numbers stand for."""

    def threads(self, block: Node, scope: Scope) -> Values:
        """Every number of threads that a block expression can start."""
        return union(self._product(*place) for place in self.origins(block, scope))

    def _axes(self, origin: Node, scope: Scope) -> list[tuple[str, Node]]:
        """The names and expressions of the axes, of which none are given for a plain number."""
        if origin.type in LISTS or called(origin)[0] == "dim3":
            return list(zip(_AXES, arguments(origin)[:3], strict=False))
        names = [f"{plain(origin)}.{axis}" for axis in _AXES]
        assigned = self.body(scope.function).assigned
        return [(n, assigned[n][-1].named_children[-1]) for n in names if n in assigned]

    def _product(self, origin: Node, scope: Scope) -> Values:
        axes = self._axes(origin, scope)
        if not axes:
            return self.of(origin, scope)
        values, names = only(1), list[str]()
        for name, node in axes:
            values = combine("*", values, self.of(node, scope))
            for whole in self._shares(node, names) if names else ():
                values = combine("min", values, self.of(whole, scope))
            names.append(name)
        return values

    def _shares(self, node: Node, names: list[str]) -> Iterator[Node]:
        """What is divided by the other axes, so that all of them together are at most that."""
        if called(node)[0] == "min":
            for part in arguments(node):
                yield from self._shares(part, names)
        divisors = []
        while sign_of(node) == "/":
            divisors.append(plain(node.named_children[-1]))
            node = node.named_children[0]
        if sorted(divisors) == sorted(names):
            yield node

    def origins(self, node: Node | None, scope: Scope, depth: int = 30) -> list[Place]:
        """The expressions that a variable which is no number can stand for."""
        if node is None or not depth:
            return []
        others = self._stands_for(node, scope)
        return [o for n, where in others for o in self.origins(n, where, depth - 1)] or [
            (node, scope)
        ]

    def _stands_for(self, node: Node, scope: Scope) -> list[tuple[Node | None, Scope]]:
        """The expressions that an expression takes its value from; none for one of its own."""
        member = text_of(node.child_by_field_name("field"))
        match node.type:
            case "parenthesized_expression" | "cast_expression":
                return [(node.named_children[-1], scope)]
            case "conditional_expression":
                arms = node.named_children[1:]
                return [(arm, scope) for arm in arms if self.reachable(arm, scope)]
            case "call_expression":
                return [*self.returned(node, scope)]
            case "identifier":
                return self._variable(node, scope)
            case "field_expression" if member in _PAIR:
                pairs = self.origins(node.child_by_field_name("argument"), scope)
                parts = [(arguments(pair), where) for pair, where in pairs]
                return [(p[_PAIR.index(member)], where) for p, where in parts if len(p) == 2]
        return []

    def _variable(self, node: Node, scope: Scope) -> list[tuple[Node | None, Scope]]:
        name, function, body = text_of(node), scope.function, self.body(scope.function)
        if (local := body.local(name, node)) is not None:
            changes = [c for c in body.assigned.get(name, []) if self.reachable(c, scope)]
            values = [local.value, *(c.named_children[-1] for c in changes)]
            return [(v, scope) for v in values if v] if VECTOR.search(local.type) else []
        if function is None or name not in function.names:
            return []
        if not VECTOR.search(text_of(function.parameters[function.names.index(name)])):
            return []
        return [place for call in self._entered(scope) for place in self._given(name, call)]

    def _read(self, node: Node, scope: Scope) -> Values:
        def part(name: str) -> Values:
            return self.of(node.child_by_field_name(name), scope)

        match node.type:
            case "identifier" | "type_identifier":
                return self._name(text_of(node), node, scope)
            case "number_literal":
                number = _NUMBER.match(text_of(node).replace("'", ""))
                return only(int(number[0], 0)) if number else None
            case "true" | "false":
                return only(int(node.type == "true"))
            case "cast_expression":
                return part("value")
            case "unary_expression":
                sign, values = sign_of(node), part("argument")
                if sign == "!":
                    return combine("==", truth(values), only(0))
                return values if sign == "+" else combine("-", only(-(sign == "~")), values)
            case "binary_expression":
                sign, left = sign_of(node), part("left")
                if (sign, truth(left)) in (("&&", only(0)), ("||", only(1))):
                    return truth(left)
                if left is None and sign in _NEED_BOTH:
                    return None
                return combine(sign, left, part("right"))
            case "conditional_expression":
                holds = truth(part("condition")) or ()
                names = [n for v, n in ((1, "consequence"), (0, "alternative")) if v in holds]
                return union(part(name) for name in names)
            case "call_expression":
                return self._result(node, scope)
            case "field_expression":
                return self._member(node, scope)
            case _ if node.type in _WRAPPERS and node.named_children:
                return self.of(node.named_children[-1], scope)
        return None

    def _member(self, node: Node, scope: Scope) -> Values:
        name = text_of(node.child_by_field_name("field"))
        if name == "warp_size":
            return only(self.kernels.warp)
        if name == "cc":
            offset = self._text("GGML_CUDA_CC_OFFSET_AMD", Scope(None, scope.file))
            return combine("+", offset, only(self.kernels.cc))
        found = self.origins(node.child_by_field_name("argument"), scope)
        return union(self._part(origin, name, where) for origin, where in found) if found else None

    def _part(self, origin: Node, name: str, scope: Scope) -> Values:
        if name in _AXES:
            axes = [node for axis, node in self._axes(origin, scope) if axis.endswith(name)]
            return self.of(axes[0], scope) if axes else None
        given = arguments(origin)
        kind = text_of(origin.child_by_field_name("type")) or called(origin)[0]
        fields = self.kernels.fields.get(kind, [])
        place = fields.index(name) if name in fields else len(given)
        return self.of(given[place], scope) if place < len(given) else None
