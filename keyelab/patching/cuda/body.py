"""What the text of a function says about its names: where declared, assigned and guarded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from keyelab.patching.cuda.syntax import (
    arguments,
    captured,
    declared,
    plain,
    sign_of,
    text_of,
    within,
)

if TYPE_CHECKING:
    from tree_sitter import Node

LISTS = {"argument_list", "initializer_list", "parameter_list", "compound_literal_expression"}
_DECLARED = ("init_declarator", "identifier", "function_declarator")
_LANE = re.compile(r"threadIdx\.x(%|&\()")
_QUERY = """
(declaration) @declaration
(assignment_expression) @change
(update_expression) @change
(return_statement (_) @return)
(lambda_expression) @lambda
"""
LOOPS = {"for_statement", "while_statement", "do_statement"}
_BRANCHES = {"if_statement", "conditional_expression"}
_ENDS = {"return_statement", "continue_statement", "break_statement"}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
Limit = tuple[str, "Node", bool]  # sign, other side, whether it holds


@dataclass(frozen=True)
class Guard:
    """What holds at a place: a condition or its opposite, or (`cases`) one of several values.

    What is `asserted` holds wherever the program goes on.
    """

    condition: Node
    holds: bool = True
    cases: tuple[Node, ...] = ()
    asserted: bool = False

    @cached_property
    def limits(self) -> dict[str, list[list[Limit]]]:
        """By expression: lists of alternatives, of each of which one holds."""
        if self.cases:
            alternatives: list[Limit] = [("==", case, True) for case in self.cases]
            return {plain(_bare(self.condition)): [alternatives]} if self.holds else {}
        found: dict[str, list[list[Limit]]] = defaultdict(list)
        for clause in _clauses(self.condition, self.holds):
            for text in set.intersection(*map(set, clause)):
                found[text].append([sides[text] for sides in clause])
        return found


@dataclass(frozen=True)
class Local:
    """A local variable: its type as written, its first value, and the block it lives in."""

    node: Node
    type: str
    value: Node | None
    block: Node

    @property
    def first(self) -> Node | None:
        """What a number starts as: the value, or the one in its parentheses or braces."""
        listed = self.value is not None and self.value.type in LISTS
        return next(iter(self.value.named_children), None) if self.value and listed else self.value


class Body:
    """The names of one function; of none, where nothing is declared or guarded."""

    def __init__(self, root: Node | None) -> None:
        self.root = root
        self.locals: dict[str, list[Local]] = defaultdict(list)
        self.assigned: dict[str, list[Node]] = defaultdict(list)
        found = captured(root, _QUERY)
        self.shared: dict[str, Node | None] = {}
        self.returns = found["return"]
        self._guards: dict[int, tuple[Guard, ...]] = {}
        for change in found["change"]:
            self.assigned[plain(change.named_children[0])].append(change)
        for inner in found["lambda"]:  # nobody looks for what its parameters are
            listed = inner.child_by_field_name("declarator")
            for node in arguments(listed and listed.child_by_field_name("parameters")):
                self.locals[declared(node)].append(Local(node, "", None, inner))
        for declaration in found["declaration"]:
            for part in declaration.named_children:
                if part.type in _DECLARED:
                    self._declare(declaration, part)
                elif any(text_of(child) == "__shared__" for child in declaration.children):
                    self.shared[declared(part)] = part.child_by_field_name("size")

    def _declare(self, declaration: Node, part: Node) -> None:
        # dim3 name(a, b) reads like a function
        value = part.child_by_field_name("value") or part.child_by_field_name("parameters")
        name, kind = declared(part), text_of(declaration.child_by_field_name("type"))
        if declaration.parent is not None:
            self.locals[name].append(Local(part, kind, value, declaration.parent))

    def local(self, name: str, at: Node) -> Local | None:
        """The declaration of `name` that counts at a place."""
        before = [d for d in self.locals.get(name, []) if d.node.end_byte <= at.start_byte]
        return next((d for d in reversed(before) if within(at, d.block)), None)

    def loop(self, change: Node, local: Local) -> Node | None:
        """The outermost loop around an assignment that does not hold the declaration's block."""
        loop, above = None, change.parent
        while above is not None and within(above, local.block):
            if above.type in LOOPS:
                loop = above
            above = above.parent
        return loop

    def changed(self, name: str, here: Node, there: Node) -> bool:
        """True when `name` is assigned between two places."""
        low, high = sorted((here.start_byte, there.start_byte))
        return any(low < a.start_byte < high for a in self.assigned.get(name, []))

    def unguarded(self) -> Iterator[Node]:
        """The sizes of shared arrays that every lane reads without asking who wrote there."""
        lanes = {
            name
            for name, found in self.locals.items()
            if any(_LANE.search(plain(local.value)) for local in found)
        }
        uses = captured(self.root, "(subscript_expression) @use")["use"] if self.shared else []
        for name, size in self.shared.items():
            mine = [use for use in uses if text_of(use.named_children[0]) == name]
            by_lane = [(u, i) for u in mine if (i := plain(u.named_children[1])[1:-1]) in lanes]
            if size and not any(_is_written(use) for use, _ in by_lane):
                for use, lane in by_lane:
                    if not any(lane in guard.limits for guard in self.guards(use)):
                        yield size

    def guards(self, node: Node) -> tuple[Guard, ...]:
        """What holds wherever `node` is reached, by the branches and assertions before it."""
        trail = []
        while node.id not in self._guards and (before := self._before(node)):
            trail.append((node, before))
            node = before
        held = self._guards.setdefault(node.id, ())
        for node, before in reversed(trail):
            more = _added(node, before) if before == node.parent else _asserted(before)
            held = self._guards[node.id] = (*held, *more)
        return held

    def _before(self, node: Node) -> Node | None:
        """The statement before a node, or what it is part of; None for the whole function."""
        parent, sibling = node.parent, node.prev_named_sibling
        if self.root is None or parent is None or self.root in (node, parent):
            return None
        in_order = parent.type in ("compound_statement", "case_statement")
        return sibling if in_order and sibling and sibling.type != "case_statement" else parent


def _is_written(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.child_by_field_name("left") == node


def _added(node: Node, parent: Node) -> Iterator[Guard]:
    """What a branch or a loop adds for one of its parts."""
    condition = parent.child_by_field_name("condition")
    if parent.type == "case_statement":
        yield from _case(parent)
    elif condition is not None and parent.type in _BRANCHES | LOOPS:
        parts = [parent.child_by_field_name(n) for n in ("consequence", "body", "alternative")]
        if node in parts:
            yield Guard(condition, holds=node != parts[-1])


def _asserted(statement: Node) -> Iterator[Guard]:
    """What holds behind a statement: an assertion, or a branch that leaves."""
    condition = statement.child_by_field_name("condition")
    then = statement.child_by_field_name("consequence")
    if statement.type == "static_assert_declaration" and condition is not None:
        yield Guard(condition, asserted=True)
    elif statement.type == "expression_statement" and statement.named_children:
        call = statement.named_children[0]
        if text_of(call.child_by_field_name("function")) == "GGML_ASSERT":
            yield from (Guard(node, asserted=True) for node in arguments(call)[:1])
    elif condition is None or then is None or statement.child_by_field_name("alternative"):
        return
    elif _leaves(then):
        yield Guard(condition, holds=False)


def _case(label: Node) -> Iterator[Guard]:
    switch = label.parent.parent if label.parent else None
    condition = switch.child_by_field_name("condition") if switch else None
    siblings = label.parent.named_children if label.parent else []
    labels = [n for n in siblings if n.type == "case_statement"]
    values = [n.child_by_field_name("value") for n in labels]
    first = place = labels.index(label)
    while first and labels[first - 1].named_children[-1:] in ([values[first - 1]], []):
        first -= 1  # a label without statements
    if condition is None or (first and not _leaves(labels[first - 1].named_children[-1])):
        return  # it falls through: nothing is known
    cases = tuple(n for n in values[first : place + 1] if n is not None)
    if len(cases) == place + 1 - first:
        yield Guard(condition, cases=cases)
    elif first == place:
        yield Guard(condition, holds=False, cases=tuple(n for n in values if n is not None))


def _leaves(statement: Node) -> bool:
    if statement.type == "compound_statement" and statement.named_children:
        return _leaves(statement.named_children[-1])
    return statement.type in _ENDS or text_of(statement).startswith("GGML_ABORT")


def _bare(node: Node) -> Node:
    while node.type in ("parenthesized_expression", "condition_clause"):
        node = node.named_children[-1]
    return node


def _clauses(node: Node, holds: bool) -> list[list[dict[str, Limit]]]:
    """The comparisons of a condition, each by its sides: of each list one holds."""
    node = _bare(node)
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = sign_of(node)
    if left is None or right is None:
        return []
    if sign in _FLIPPED:
        limits = {plain(left): (sign, right, holds), plain(right): (_FLIPPED[sign], left, holds)}
        return [[limits]]
    if sign not in ("&&", "||"):
        return []
    one, other = _clauses(left, holds), _clauses(right, holds)
    if (sign == "&&") == holds:
        return one + other
    return [one[0] + other[0]] if len(one) == len(other) == 1 else []
