"""What expressions can be across functions: parameters, templates, lambdas and results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from keyelab.patching.cuda.bounds import Bounds, Scope
from keyelab.patching.cuda.kernels import Call, Function, Kernels
from keyelab.patching.cuda.syntax import (
    Unreadable,
    arguments,
    called,
    expression,
    text_of,
)
from keyelab.patching.cuda.values import Values, combine, only, union

if TYPE_CHECKING:
    from tree_sitter import Node

Place = tuple["Node", Scope]
VECTOR = re.compile(r"dim3|auto|pair|params|kernel_t|config")
_CAST = re.compile(r"u?int\d*_t|int|unsigned|long|size_t|static_cast|reinterpret_cast")


def at(call: Call) -> Scope:
    """The scope of a call's own place, under every call of its function."""
    return Scope(call.inside, call.inside.file, place=call.node)


class Calls(Bounds):
    """The values of expressions across functions.

    `general` are the scopes without a call in which a parameter was asked for.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__(kernels)
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

    def _name(self, name: str, node: Node, scope: Scope) -> Values:
        """The values of a name: a macro, a variable, a parameter, an enumerator or a constant."""
        if name in scope.chosen:
            return scope.chosen[name]
        macro = self.kernels.macros[scope.file].get(name)
        if macro is not None and macro.parameters is None:
            return self._text(macro.body, Scope(None, scope.file))
        body, function = self.body(scope.function), scope.function
        if (local := body.local(name, node)) is not None:
            return self._local(name, local, node, scope)
        if function and name in (*function.names, *function.template_names):
            places = [place for call in self._entered(scope) for place in self._given(name, call)]
            return union(self.of(*place) for place in places) if places else None
        if name in self.kernels.enumerators:
            return only(self.kernels.enumerators[name])
        return self.of(self.kernels.constants.get(name), Scope(None, scope.file))

    def _entered(self, scope: Scope) -> list[Scope]:
        """The function under its call, or under each of its calls."""
        if scope.call is None:
            self.general.add(scope)
        return [scope] if scope.call else self.callers(scope.function)

    def _given(self, name: str, scope: Scope) -> list[tuple[Node | None, Scope]]:
        """What a call gives for a parameter, or for each of a pack, and where to read it."""
        function, call, caller = scope.function, scope.call, scope.caller
        if function is None or call is None or caller is None:
            return []
        if name in function.names:
            place, listed = function.names.index(name), function.parameters
            given = arguments(call) if call.type == "call_expression" else []
        else:
            place, listed = function.template_names.index(name), function.template
            target = called(call)[1]
            given = arguments(target) if target.type == "template_function" else []
        if place < len(given):
            packed = listed[place].type.startswith("variadic")
            return [
                (one, caller) for one in (given[place:] if packed else given[place : place + 1])
            ]
        return [(listed[place].child_by_field_name("default_value"), scope)]

    def _result(self, node: Node, scope: Scope) -> Values:
        """The values of a call."""
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
        found = self.returned(node, scope)
        return union(self.of(*place) for place in found) if found else None

    def _text(self, text: str, scope: Scope) -> Values:
        try:
            return self.of(expression(text), scope)
        except Unreadable:
            return None


def _fits(function: Function, call: Node) -> bool:
    return call.type != "call_expression" or function.takes(len(arguments(call)))
