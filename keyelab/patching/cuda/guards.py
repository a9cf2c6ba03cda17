"""What the branches and assertions before a place say about the names in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from keyelab.patching.cuda.nodes import plain
from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = {"for_statement", "while_statement", "do_statement"}
_ENDS = {"return_statement", "continue_statement", "break_statement"}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
Limit = tuple[str, "Node", bool]


@dataclass(frozen=True, eq=False)
class Guard:
    """What holds at a place: a condition or its opposite, or (`cases`) one of several values.

    What is `asserted` holds wherever the program goes on; `before` is what held already.
    """

    condition: Node
    holds: bool = True
    cases: tuple[Node, ...] = ()
    asserted: bool = False
    before: Guard | None = None
    _about: dict[str, tuple[tuple[Guard, list[list[Limit]]], ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    def about(self, text: str) -> tuple[tuple[Guard, list[list[Limit]]], ...]:
        """The guards up to this one that limit an expression, with their limits."""
        chain = list(takewhile(lambda guard: text not in guard._about, self))
        first = chain[-1].before if chain else self
        found = first._about[text] if first else ()
        for guard in reversed(chain):
            own = guard.limits.get(text)
            found = guard._about[text] = (*found, (guard, own)) if own else found
        return found

    def __iter__(self) -> Iterator[Guard]:
        guard: Guard | None = self
        while guard is not None:
            yield guard
            guard = guard.before

    @property
    def branch(self) -> tuple[Node, bool, tuple[Node, ...]]:
        """What tells it from other branches."""
        return self.condition, self.holds, self.cases

    @cached_property
    def limits(self) -> dict[str, list[list[Limit]]]:
        """By expression: alternatives of which one holds, each (sign, other side, holds)."""
        if self.cases:
            alternatives: list[Limit] = [("==", case, True) for case in self.cases]
            return {plain(_bare(self.condition)): [alternatives]} if self.holds else {}
        found: dict[str, list[list[Limit]]] = defaultdict(list)
        for clause in _clauses(self.condition, self.holds):
            sides = [_sides(node) for node, _ in clause[:2]]
            if len(clause) > 1 and sides[0].keys() & sides[1].keys():
                sides += [_sides(node) for node, _ in clause[2:]]
            elif len(clause) > 1:
                continue
            for text in set.intersection(*(set(side) for side in sides)):
                limits = [(*s[text], holds) for s, (_, holds) in zip(sides, clause, strict=True)]
                found[text].append(limits)
        return found


def added(node: Node, parent: Node) -> Iterator[Guard]:
    condition = parent.child_by_field_name("condition")
    if parent.type in ("if_statement", "conditional_expression") and condition is not None:
        if node == parent.child_by_field_name("consequence"):
            yield Guard(condition)
        elif node == parent.child_by_field_name("alternative"):
            yield Guard(condition, holds=False)
    elif parent.type in LOOPS and condition is not None:
        if node == parent.child_by_field_name("body"):
            yield Guard(condition)
    elif parent.type == "case_statement":
        yield from _case(parent)


def _case(label: Node) -> Iterator[Guard]:
    switch = label.parent.parent if label.parent else None
    value = label.child_by_field_name("value")
    condition = switch.child_by_field_name("condition") if switch else None
    cases = []
    before = label.prev_named_sibling
    while before is not None and before.type == "case_statement":
        last = before.named_children[-1] if before.named_children else None
        other = before.child_by_field_name("value")
        if last is not None and last != other:
            if not _leaves(last):
                return  # it falls through: nothing is known
            break
        if other is None or value is None:
            return
        cases.append(other)
        before = before.prev_named_sibling
    if condition is not None and value is not None:
        yield Guard(condition, cases=(value, *cases))
    elif condition is not None and label.parent is not None:
        others = [n.child_by_field_name("value") for n in label.parent.named_children]
        yield Guard(condition, holds=False, cases=tuple(n for n in others if n is not None))


def asserted(statement: Node) -> Iterator[Guard]:
    if statement.type == "static_assert_declaration":
        condition = statement.child_by_field_name("condition")
        if condition is not None:
            yield Guard(condition, asserted=True)
    elif statement.type == "expression_statement" and statement.named_children:
        call = statement.named_children[0]
        arguments = call.child_by_field_name("arguments")
        if text_of(call.child_by_field_name("function")) == "GGML_ASSERT" and arguments:
            yield from (Guard(node, asserted=True) for node in arguments.named_children[:1])
    elif statement.type == "if_statement" and not statement.child_by_field_name("alternative"):
        condition = statement.child_by_field_name("condition")
        then = statement.child_by_field_name("consequence")
        if condition is not None and then is not None and _leaves(then):
            yield Guard(condition, holds=False)


def _leaves(statement: Node) -> bool:
    if statement.type == "compound_statement" and statement.named_children:
        return _leaves(statement.named_children[-1])
    return statement.type in _ENDS or text_of(statement).startswith("GGML_ABORT")


def _bare(node: Node) -> Node:
    while node.type in ("parenthesized_expression", "condition_clause"):
        node = node.named_children[-1]
    return node


def _clauses(node: Node, holds: bool) -> list[list[tuple[Node, bool]]]:
    """The comparisons of a condition: of each list one holds (or, False, does not)."""
    node = _bare(node)
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = text_of(node.child_by_field_name("operator"))
    if sign not in ("&&", "||") or left is None or right is None:
        return [[(node, holds)]] if sign in _FLIPPED else []
    one, other = _clauses(left, holds), _clauses(right, holds)
    if (sign == "&&") == holds:
        return one + other
    if len(one) == len(other) == 1:
        return [one[0] + other[0]]
    return []


def _sides(node: Node) -> dict[str, tuple[str, Node]]:
    """Each side of a comparison, with the sign and the other side that limit it."""
    sign = text_of(node.child_by_field_name("operator"))
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return {}
    return {plain(left): (sign, right), plain(right): (_FLIPPED[sign], left)}
