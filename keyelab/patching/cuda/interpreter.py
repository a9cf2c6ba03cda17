"""An interpreter of the little C++ in which ggml chooses kernels.

Arithmetic, branches, loops and macros, no pointers and no memory. Whatever else stands in the
source is Unreadable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyelab.patching.cuda.syntax import (
    Unreadable,
    arguments,
    declared,
    expression,
    sign_of,
    text_of,
)
from keyelab.patching.cuda.values import BINARY

if TYPE_CHECKING:
    from tree_sitter import Node

Names = dict[str, Any]
_MOST_ROUNDS = 10_000
_UNARY: dict[str, Callable[[Any], Any]] = {"!": operator.not_, "-": operator.neg, "+": operator.pos}


@dataclass(frozen=True)
class Macro:
    """A macro: None for the parameters of one without parentheses."""

    parameters: list[str] | None
    body: str


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def number(text: str) -> int | float:
    """The value of a number literal."""
    text = text.lower().replace("'", "")
    if text.startswith("0x") or "." not in text:
        return int(text.rstrip("ul"), 0)
    return float(text.rstrip("f"))


class Interpreter:
    """Values of expressions under macros; `names` holds the variables of a whole function."""

    def __init__(self, table: dict[str, Macro]) -> None:
        self.table = table

    def missing(self, name: str) -> Any:
        """The value of a name that is neither a variable nor a macro; in a condition it is 0."""
        return 0

    def call(self, node: Node, names: Names) -> Any:
        """The value of a call that is not one of a macro."""
        raise Unreadable(f"call: {text_of(node)[:60]}")

    def value(self, node: Node | None, names: Names) -> Any:
        """The value of an expression; raises Unreadable for what is not understood."""
        try:
            if node is not None and not node.has_error:
                return self._value(node, names)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise Unreadable(f"{text_of(node)[:60]}: {error}") from None
        raise Unreadable(f"no expression: {text_of(node)[:60]}")

    def _value(self, node: Node, names: Names) -> Any:
        def part(field: str) -> Any:
            return self.value(node.child_by_field_name(field), names)

        sign = sign_of(node)
        match node.type:
            case "number_literal":
                return number(text_of(node))
            case "true" | "false":
                return node.type == "true"
            case "null":
                return None
            case "identifier":
                return self._name(text_of(node), names)
            case "parenthesized_expression" | "condition_clause":
                return self.value(node.named_children[0], names)
            case "cast_expression":
                return part("value")
            case "unary_expression":
                return _UNARY[sign](part("argument"))
            case "binary_expression" if sign in ("&&", "||"):
                left = bool(part("left"))
                return left if left == (sign == "||") else bool(part("right"))
            case "binary_expression":
                return BINARY[sign](part("left"), part("right"))
            case "conditional_expression":
                return part("consequence" if part("condition") else "alternative")
            case "call_expression":
                return self._call(node, names)
            case "field_expression":
                return getattr(part("argument"), text_of(node.child_by_field_name("field")))
            case "subscript_expression":
                (index,) = node.named_children[1].named_children
                return part("argument")[self.value(index, names)]
            case "assignment_expression" if node.named_children[0].type == "identifier":
                name, right, sign = text_of(node.named_children[0]), part("right"), sign[:-1]
                names[name] = BINARY[sign](names[name], right) if sign else right
                return names[name]
            case "update_expression":
                names[text_of(node.named_children[0])] += 1 if sign == "++" else -1
                return None
        raise Unreadable(f"{node.type}: {text_of(node)[:60]}")

    def _name(self, name: str, names: Names) -> Any:
        if name in names:
            return names[name]
        macro = self.table.get(name)
        if macro is not None and macro.parameters is None:
            return self.value(expression(macro.body), {})
        return self.missing(name)

    def _call(self, node: Node, names: Names) -> Any:
        macro = self.table.get(text_of(node.child_by_field_name("function")))
        if macro is None or macro.parameters is None:
            return self.call(node, names)
        values = [self.value(one, names) for one in arguments(node)]
        return self.value(expression(macro.body), dict(zip(macro.parameters, values, strict=True)))

    def returned(self, body: Node, names: Names) -> Any:
        """What the body of a function returns; raises Unreadable where it returns nothing."""
        try:
            self._run(body, names)
        except _Return as done:
            return done.value
        raise Unreadable("no return statement is reached")

    def _run(self, node: Node, names: Names) -> None:
        match node.type:
            case "compound_statement" | "else_clause":
                for child in node.named_children:
                    self._run(child, names)
            case "expression_statement":
                for child in node.named_children:
                    self.value(child, names)
            case "declaration":
                for child in node.named_children:
                    if child.type == "init_declarator":
                        value = self.value(child.child_by_field_name("value"), names)
                        names[declared(child)] = value
            case "return_statement":
                raise _Return(self.value(next(iter(node.named_children), None), names))
            case "break_statement":
                raise _Break
            case "continue_statement":
                raise _Continue
            case "if_statement":
                holds = self.value(node.child_by_field_name("condition"), names)
                chosen = node.child_by_field_name("consequence" if holds else "alternative")
                if chosen is not None:
                    self._run(chosen, names)
            case "switch_statement":
                self._switch(node, names)
            case "while_statement" | "for_statement" | "for_range_loop":
                self._loop(node, names)
            case "static_assert_declaration" | "type_definition" | "alias_declaration":
                pass
            case _:
                raise Unreadable(f"{node.type}: {text_of(node)[:60]}")

    def _switch(self, node: Node, names: Names) -> None:
        wanted = self.value(node.child_by_field_name("condition"), names)
        body = node.child_by_field_name("body")
        cases = [n for n in (body.named_children if body else []) if n.type == "case_statement"]
        labels = [n.child_by_field_name("value") for n in cases]
        hits = [i for i, n in enumerate(labels) if n and BINARY["=="](wanted, self.value(n, names))]
        others = [i for i, n in enumerate(labels) if n is None]
        with suppress(_Break):
            for place in range((hits + others + [len(cases)])[0], len(cases)):
                for child in cases[place].named_children[0 if labels[place] is None else 1 :]:
                    self._run(child, names)

    def _loop(self, node: Node, names: Names) -> None:
        body = node.child_by_field_name("body")
        with suppress(_Break):
            for count, _ in enumerate(self._rounds(node, names)):
                if count > _MOST_ROUNDS or body is None:
                    raise Unreadable("a loop without end")
                with suppress(_Continue):
                    self._run(body, names)

    def _rounds(self, node: Node, names: Names) -> Iterator[None]:
        """One item before each round of a loop."""
        parts = [node.child_by_field_name(n) for n in ("initializer", "condition", "update")]
        start, condition, update = parts
        if node.type == "for_range_loop":
            name = declared(node.child_by_field_name("declarator"))
            for item in arguments(node.child_by_field_name("right")):
                names[name] = self.value(item, names)
                yield
            return
        if start is not None:
            self._run(start, names)
        while self.value(condition, names):
            yield
            if update is not None:
                self.value(update, names)
