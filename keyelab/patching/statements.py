"""The statements of C++ in which ggml chooses kernels: branches, loops and local variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from keyelab.patching.macros import BINARY, Macros, Names, Unreadable, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SKIPPED = {"static_assert_declaration", "type_definition", "alias_declaration"}
_MOST_ROUNDS = 10_000


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def name_of(node: Node | None) -> str:
    """The declared name in a declarator, below its pointers, references and brackets."""
    while node is not None and node.type not in ("identifier", "field_identifier"):
        node = node.child_by_field_name("declarator") or next(
            (n for n in node.named_children if n.type.endswith(("declarator", "identifier"))), None
        )
    return text_of(node)


class Statements(Macros):
    """Runs statements; `names` holds the variables, in one scope for a whole function."""

    def returned(self, body: Node, names: Names) -> Any:
        """What the body of a function returns; raises Unreadable where it returns nothing."""
        try:
            self._do(body, names)
        except _Return as done:
            return done.value
        raise Unreadable("no return statement is reached")

    def _field_expression(self, node: Node, names: Names) -> Any:
        owner = self._part(node, "argument", names)
        return getattr(owner, text_of(node.child_by_field_name("field")))

    def _subscript_expression(self, node: Node, names: Names) -> Any:
        (index,) = node.named_children[1].named_children
        return self._part(node, "argument", names)[self.value(index, names)]

    def _assignment_expression(self, node: Node, names: Names) -> None:
        value, target = self._part(node, "right", names), node.child_by_field_name("left")
        sign = text_of(node.child_by_field_name("operator")).removesuffix("=")
        if target is None or target.type != "identifier":
            raise Unreadable(text_of(node)[:60])
        name = text_of(target)
        names[name] = BINARY[sign](names[name], value) if sign else value

    def _update_expression(self, node: Node, names: Names) -> None:
        step = 1 if "++" in text_of(node) else -1
        names[text_of(node.child_by_field_name("argument"))] += step

    def _do(self, node: Node, names: Names) -> None:
        """Run one statement."""
        if node.type in _SKIPPED:
            return
        run = getattr(self, f"_do_{node.type}", None)
        if run is None:
            raise Unreadable(f"{node.type}: {text_of(node)[:60]}")
        run(node, names)

    def _do_compound_statement(self, node: Node, names: Names) -> None:
        for child in node.named_children:
            self._do(child, names)

    _do_else_clause = _do_compound_statement

    def _do_expression_statement(self, node: Node, names: Names) -> None:
        for child in node.named_children:
            self.value(child, names)

    def _do_declaration(self, node: Node, names: Names) -> None:
        for child in node.named_children:
            if child.type == "init_declarator":
                names[name_of(child)] = self._part(child, "value", names)

    def _do_return_statement(self, node: Node, names: Names) -> None:
        raise _Return(self.value(node.named_children[0], names) if node.named_children else None)

    def _do_if_statement(self, node: Node, names: Names) -> None:
        holds = self._part(node, "condition", names)
        chosen = node.child_by_field_name("consequence" if holds else "alternative")
        if chosen is not None:
            self._do(chosen, names)

    def _do_break_statement(self, node: Node, names: Names) -> None:
        raise _Break

    def _do_continue_statement(self, node: Node, names: Names) -> None:
        raise _Continue

    def _do_switch_statement(self, node: Node, names: Names) -> None:
        wanted = self._part(node, "condition", names)
        body = node.child_by_field_name("body")
        cases = [n for n in (body.named_children if body else []) if n.type == "case_statement"]
        labels = [n.child_by_field_name("value") for n in cases]
        hits = [i for i, n in enumerate(labels) if n and BINARY["=="](wanted, self.value(n, names))]
        others = [i for i, n in enumerate(labels) if n is None]
        with suppress(_Break):
            for place in range((hits + others + [len(cases)])[0], len(cases)):
                for child in cases[place].named_children[0 if labels[place] is None else 1 :]:
                    self._do(child, names)

    def _loop(self, rounds: Iterable[object], body: Node | None, names: Names) -> None:
        with suppress(_Break):
            for count, _ in enumerate(rounds):
                if count > _MOST_ROUNDS or body is None:
                    raise Unreadable("a loop without end")
                with suppress(_Continue):
                    self._do(body, names)

    def _do_while_statement(self, node: Node, names: Names) -> None:
        rounds = iter(lambda: bool(self._part(node, "condition", names)), False)
        self._loop(rounds, node.child_by_field_name("body"), names)

    def _do_for_statement(self, node: Node, names: Names) -> None:
        start = node.child_by_field_name("initializer")
        if start is not None:
            self._do(start, names)

        def rounds() -> Iterator[None]:
            while self._part(node, "condition", names):
                yield
                self._part(node, "update", names)

        self._loop(rounds(), node.child_by_field_name("body"), names)

    def _do_for_range_loop(self, node: Node, names: Names) -> None:
        listed = node.child_by_field_name("right")
        name = name_of(node.child_by_field_name("declarator"))

        def rounds() -> Iterator[None]:
            for item in listed.named_children if listed else []:
                names[name] = self.value(item, names)
                yield

        self._loop(rounds(), node.child_by_field_name("body"), names)
