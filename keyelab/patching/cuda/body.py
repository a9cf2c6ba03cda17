"""What the text of a function says about its names: where declared, assigned and guarded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keyelab.patching.cuda.guards import LOOPS, Guard, added, asserted
from keyelab.patching.cuda.nodes import declared, plain, within
from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

LISTS = {"argument_list", "initializer_list", "parameter_list", "compound_literal_expression"}
_LANE = re.compile(r"threadIdx\.x(%|&\()")


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
    """The names of one function."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.locals: dict[str, list[Local]] = defaultdict(list)
        self.assigned: dict[str, list[Node]] = defaultdict(list)
        self.lambdas: list[tuple[str, Node, list[str]]] = []
        self.returns: list[Node] = []
        self.shared: dict[str, Node] = {}
        self.elements: list[Node] = []
        self._guards: dict[int, Guard | None] = {}
        self._collect(root)

    def _collect(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "declaration":
                for part in child.named_children:
                    self._declare(child, part)
            elif child.type == "assignment_expression":
                self.assigned[plain(child.child_by_field_name("left"))].append(child)
            elif child.type == "update_expression":
                self.assigned[plain(child.child_by_field_name("argument"))].append(child)
            elif child.type == "subscript_expression":
                self.elements.append(child)
            elif child.type == "return_statement":
                self.returns += child.named_children[:1]
            if child.named_child_count:
                self._collect(child)

    def _declare(self, declaration: Node, part: Node) -> None:
        value = part.child_by_field_name("value")
        size = part.child_by_field_name("size")
        if size is not None and any(text_of(c) == "__shared__" for c in declaration.children):
            self.shared[declared(part)] = size
        if part.type == "function_declarator":  # dim3 name(a, b) reads like one
            value = part.child_by_field_name("parameters")
        elif part.type not in ("init_declarator", "identifier"):
            return
        kind = text_of(declaration.child_by_field_name("type"))
        name = declared(part)
        if value is not None and value.type == "lambda_expression":
            listed = value.child_by_field_name("declarator")
            listed = listed.child_by_field_name("parameters") if listed else None
            names = [declared(n) for n in listed.named_children] if listed else []
            self.lambdas.append((name, value, names))
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
        for name, size in self.shared.items():
            uses = [e for e in self.elements if text_of(e.named_children[0]) == name]
            by_lane = [e for e in uses if plain(e.named_children[1])[1:-1] in lanes]
            reads = [e for e in by_lane if not _is_written(e)]
            filled = len(reads) < len(by_lane)
            for read in [] if filled else reads:
                lane = plain(read.named_children[1])[1:-1]
                if not any(lane in guard.limits for guard in self.guard(read) or ()):
                    yield size

    def guard(self, node: Node) -> Guard | None:
        """What holds wherever `node` is reached, from the branches and assertions before it."""
        wanted, todo = node.id, []
        while node.id not in self._guards:
            parent, sibling = node.parent, node.prev_named_sibling
            if parent is None or self.root in (node, parent):
                self._guards[node.id] = None
                break
            in_order = parent.type in ("compound_statement", "case_statement")
            follows = in_order and sibling is not None and sibling.type != "case_statement"
            todo.append((node, sibling if follows and sibling else parent, follows))
            node = todo[-1][1]
        for node, base, follows in reversed(todo):
            before = self._guards[base.id]
            for guard in asserted(base) if follows else added(node, base):
                before = replace(guard, before=before)
            self._guards[node.id] = before
        return self._guards[wanted]


def _is_written(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.child_by_field_name("left") == node
