"""What expressions can be across functions: parameters, templates, lambdas and results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from keyelab.patching.cuda.bounds import Scope
from keyelab.patching.cuda.flow import Flow
from keyelab.patching.cuda.kernels import Call, Function, Kernels
from keyelab.patching.cuda.nodes import arguments, called, plain, within
from keyelab.patching.cuda.ops import Ops
from keyelab.patching.cuda.values import NEVER, Values, combine, union
from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Place = tuple["Node", Scope]
VECTOR = re.compile(r"dim3|auto|pair|params|kernel_t|config")
_CAST = re.compile(r"u?int\d*_t|int|unsigned|long|size_t|static_cast|reinterpret_cast")


def at(call: Call) -> Scope:
    """The scope of a call's own place, under every call of its function."""
    return Scope(call.inside, call.inside.file, place=call.node)


class Calls(Flow):
    """The values of expressions across functions.

    `general` are the scopes without a call in which a parameter was asked for.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__(kernels)
        self.ops = Ops(kernels)
        self.general: set[Scope] = set()
        self._callers: dict[Node, list[Scope]] = {}
        self._works: dict[tuple[object, ...], Scope] = {}
        self._results: dict[Scope, list[Node]] = {}

    def callers(self, function: Function | None) -> list[Scope]:
        """The function under each of its calls."""
        if function is not None and function.node not in self._callers:
            self._callers[function.node] = [
                Scope(function, function.file, call.node, at(call))
                for call in self.kernels.calls[function.name]
                if call.inside is not function and _fits(function, call.node)
            ]
        return self._callers[function.node] if function else []

    def returned(self, node: Node, scope: Scope) -> list[Place]:
        """The expressions that a called function can return, each with its scope."""
        found, side = [], scope.side
        for function in self.kernels.functions.get(called(node)[0], []):
            if side in function.passes and _fits(function, node):
                where = self._work(function, node, scope)
                if where not in self._results:
                    returns = self.body(function).returns
                    self._results[where] = [r for r in returns if self.reachable(r, where)]
                found += [(result, where) for result in self._results[where]]
        return found

    def _work(self, function: Function, node: Node, scope: Scope) -> Scope:
        """The function at this call; the same for every call with the same numbers."""
        given = [*arguments(node), *arguments(called(node)[1])]
        plainly = not any(VECTOR.search(text_of(parameter)) for parameter in function.parameters)
        read = (scope.side, *(self.of(part, scope) for part in given))
        key = (function, *read) if plainly else (node, scope)
        return self._works.setdefault(key, Scope(function, function.file, node, scope))

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
        left = NEVER
        for guards in served:
            one = values
            for limits in [x for guard in guards for x in guard.limits.get(wanted, ())]:
                one = self._limited(one, limits, Scope(None, scope.file))
            left = union(left, one)
        return left

    def _given(self, name: str, node: Node, scope: Scope) -> Values:
        function = scope.function
        if function is None:
            return NEVER
        for variable, inner, names in self.body(function).lambdas:
            if within(node, inner) and name in names:
                return self._of_lambda(variable, names.index(name), scope)
        if name not in function.names and name not in function.template_names:
            return NEVER
        if scope.call is None:
            self.general.add(scope)
        values, scopes = NEVER, [scope] if scope.call else self.callers(function)
        for call in scopes:
            given, where, more = self._argument(name, call)
            for part in (given, *more):
                values = union(values, self.of(part, where))
        return values if scopes else None

    def _of_lambda(self, variable: str, place: int, scope: Scope) -> Values:
        values = NEVER
        for call in self.kernels.calls[variable]:
            given = arguments(call.node)
            if call.inside is scope.function and place < len(given):
                constant = re.search(r"integral_constant<", text_of(given[place]))
                inner = _template(given[place]) if constant else None
                values = union(values, self.of(inner or given[place], scope))
        return values if values else None

    def _argument(self, name: str, scope: Scope) -> tuple[Node | None, Scope, list[Node]]:
        """What a call gives for a parameter, where to read it, and the rest of a pack."""
        function, call, caller = scope.function, scope.call, scope.caller
        if function is None or call is None or caller is None:
            return None, scope, []
        if name in function.names:
            place, listed = function.names.index(name), function.parameters
            given = arguments(call) if call.type == "call_expression" else []
        else:
            place, listed = function.template_names.index(name), function.template
            target = called(call)[1]
            given = arguments(target) if target.type == "template_function" else []
        if place < len(given):
            more = given[place + 1 :] if listed[place].type.startswith("variadic") else []
            return given[place], caller, more
        return listed[place].child_by_field_name("default_value"), scope, []

    def _result(self, node: Node, scope: Scope) -> Values:
        name, given = called(node)[0], arguments(node)
        if name.lower() in ("min", "max") and len(given) == 2:
            return combine(name.lower(), *(self.of(part, scope) for part in given))
        if _CAST.fullmatch(name) and len(given) == 1:
            return self.of(given[0], scope)
        macro = self.kernels.macros[scope.file].get(name)
        if macro is not None and macro.parameters is not None:
            read = [self.of(part, scope) for part in given]
            chosen = dict(zip(macro.parameters, read, strict=False))
            return self._text(macro.body, Scope(None, scope.file, chosen=chosen))
        values, found = NEVER, self.returned(node, scope)
        for result, where in found:
            values = union(values, self.of(result, where))
        return values if found else None


def _fits(function: Function, call: Node) -> bool:
    if call.type != "call_expression":
        return True
    given = len(arguments(call))
    least = sum(n.child_by_field_name("default_value") is None for n in function.parameters)
    return least <= given <= len(function.names)


def _template(node: Node) -> Node | None:
    """The last argument of the first template in an expression."""
    if node.type == "template_argument_list":
        return node.named_children[-1]
    return next((found for c in node.named_children if (found := _template(c))), None)
