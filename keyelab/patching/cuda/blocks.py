"""How many threads a block expression starts at most, through parameters, calls and structures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import LISTS
from keyelab.patching.cuda.bounds import Scope
from keyelab.patching.cuda.calls import VECTOR, Calls, Place
from keyelab.patching.cuda.nodes import arguments, called, plain
from keyelab.patching.cuda.values import NEVER, Values, combine, only, union
from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_AXES = ["x", "y", "z"]
_PAIR = ["first", "second"]


class Blocks(Calls):
    """The threads of a block expression, and what variables that are no numbers stand for."""

    def threads(self, block: Node, scope: Scope) -> Values:
        """Every number of threads that a block expression can start."""
        values = NEVER
        for origin, where in self.origins(block, scope):
            parts = self._axes(origin, where)
            one = self._product(parts, where) if parts else self.of(origin, where)
            values = union(values, one)
        return values

    def _axes(self, origin: Node, scope: Scope) -> list[tuple[str, Node]]:
        """The names and expressions of the axes, of which none are given for a plain number."""
        if origin.type in LISTS or called(origin)[0] == "dim3":
            return list(zip(_AXES, arguments(origin)[:3], strict=False))
        name, found = plain(origin), []
        body = self.body(scope.function) if scope.function and origin.type == "identifier" else None
        for axis in _AXES if body else []:
            changes = body.assigned.get(f"{name}.{axis}", []) if body else []
            right = changes[-1].child_by_field_name("right") if changes else None
            found += [(f"{name}.{axis}", right)] if right else []
        return found

    def _product(self, parts: list[tuple[str, Node]], scope: Scope) -> Values:
        values, names = only(1), list[str]()
        for name, node in parts:
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
        while text_of(node.child_by_field_name("operator")) == "/":
            divisors.append(plain(node.child_by_field_name("right")))
            node = node.named_children[0]
        if sorted(divisors) == sorted(names):
            yield node

    def origins(self, node: Node | None, scope: Scope) -> list[Place]:
        """The expressions that a variable which is no number can stand for."""
        if node is None or self._depth > 30:
            return []
        self._depth += 1
        try:
            return list(self._origins(node, scope))
        finally:
            self._depth -= 1

    def _origins(self, node: Node, scope: Scope) -> list[Place]:
        if node.type in ("parenthesized_expression", "cast_expression"):
            return self.origins(node.named_children[-1], scope)
        if node.type == "conditional_expression":
            arms = [node.child_by_field_name(n) for n in ("consequence", "alternative")]
            taken = [arm for arm in arms if arm and self.reachable(arm, scope)]
            return [place for arm in taken for place in self.origins(arm, scope)]
        if node.type == "identifier" and scope.function:
            return self._variable(node, scope)
        member = text_of(node.child_by_field_name("field"))
        if member in _PAIR:
            pairs = self.origins(node.child_by_field_name("argument"), scope)
            parts = [(arguments(pair), where) for pair, where in pairs]
            found = [(p[_PAIR.index(member)], where) for p, where in parts if len(p) == len(_PAIR)]
            return [place for part, where in found for place in self.origins(part, where)]
        if node.type == "call_expression" and called(node)[0] in self.kernels.functions:
            results = self.returned(node, scope)
            return [o for r, where in results for o in self.origins(r, where)] or [(node, scope)]
        return [(node, scope)]

    def _variable(self, node: Node, scope: Scope) -> list[Place]:
        name, function = text_of(node), scope.function
        if function is None or name in self.kernels.macros[scope.file]:
            return [(node, scope)]
        body = self.body(function)
        local = body.local(name, node)
        if local is not None:
            changes = [c for c in body.assigned.get(name, []) if self.reachable(c, scope)]
            if not VECTOR.search(local.type):
                return [(node, scope)]
            values = [local.value, *(c.child_by_field_name("right") for c in changes)]
            found = [o for v in values if v is not None for o in self.origins(v, scope)]
            return found or [(local.node, scope)]
        if name not in function.names:
            return [(node, scope)]
        if not VECTOR.search(text_of(function.parameters[function.names.index(name)])):
            return [(node, scope)]
        if scope.call is None:
            self.general.add(scope)
        found = []
        for call in [scope] if scope.call else self.callers(function):
            given, where, _ = self._argument(name, call)
            found += self.origins(given, where)
        return found or [(node, scope)]

    def _member(self, node: Node, scope: Scope) -> Values:
        name = text_of(node.child_by_field_name("field"))
        if name == "warp_size":
            return only(self.kernels.warp)
        if name == "cc":
            offset = self._text("GGML_CUDA_CC_OFFSET_AMD", Scope(None, scope.file))
            return combine("+", offset, only(self.kernels.cc))
        values, found = NEVER, self.origins(node.child_by_field_name("argument"), scope)
        for origin, where in found:
            values = union(values, self._part(origin, name, where))
        return values if found else None

    def _part(self, origin: Node, name: str, scope: Scope) -> Values:
        if name in _AXES:
            axes = [node for axis, node in self._axes(origin, scope) if axis.endswith(name)]
            return self.of(axes[0], scope) if axes else None
        given = arguments(origin)
        kind = text_of(origin.child_by_field_name("type")) or called(origin)[0]
        fields = self.kernels.fields.get(kind, [])
        place = fields.index(name) if name in fields else len(given)
        return self.of(given[place], scope) if place < len(given) else None
