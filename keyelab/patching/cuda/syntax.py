"""Syntax trees of CUDA C++, and the names, arguments and texts of their nodes."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query

_NAMES = ("identifier", "declarator")


class Unreadable(Exception):
    """Source that this reader does not understand; the text says what and where."""


def _language() -> Language:
    import tree_sitter_cuda
    from tree_sitter import Language

    return Language(tree_sitter_cuda.language())


@lru_cache(maxsize=1)
def _parser() -> Parser:
    from tree_sitter import Parser

    return Parser(_language())


@lru_cache
def _query(text: str) -> Query:
    from tree_sitter import Query

    return Query(_language(), text)  # type: ignore[no-any-return]


def parse(text: str) -> Node:
    """The root of the syntax tree of CUDA C++."""
    return _parser().parse(text.encode()).root_node


def captured(root: Node | None, query: str) -> dict[str, list[Node]]:
    """The nodes below one by their names in a tree-sitter query, in the order of the text."""
    from tree_sitter import QueryCursor

    found = QueryCursor(_query(query)).captures(root) if root else {}
    for nodes in found.values():
        nodes.sort(key=lambda node: (node.start_byte, -node.end_byte))
    return defaultdict(list, found)


@lru_cache(maxsize=4096)
def expression(text: str) -> Node:
    """The syntax tree of one expression."""
    root = parse(f"auto value = {text};")
    node = root.named_children[0].child_by_field_name("declarator") if root.children else None
    value = node.child_by_field_name("value") if node else None
    if value is None or root.has_error:
        raise Unreadable(f"no expression: {text}")
    return value


def text_of(node: Node | None) -> str:
    """The source text of a node; empty for None."""
    return node.text.decode() if node is not None and node.text is not None else ""


def plain(node: Node | None) -> str:
    """The text of a node without white space."""
    return "".join(text_of(node).split())


def sign_of(node: Node) -> str:
    """The operator of an expression; empty where there is none."""
    return text_of(node.child_by_field_name("operator"))


def within(inner: Node, outer: Node) -> bool:
    """True when one node lies in the other, of the same file."""
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def declared(node: Node | None) -> str:
    """The name that a declaration, a declarator or a parameter gives; empty where there is none."""
    while node is not None:
        if node.type in ("identifier", "type_identifier", "field_identifier"):
            return text_of(node)
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if inner is None and node.type.endswith(("declarator", "parameter_declaration")):
            named = [c for c in node.named_children if c.type.endswith(_NAMES)]
            inner = named[-1] if named else None
        node = inner
    return ""


def called(node: Node) -> tuple[str, Node]:
    """The last name of what a call, a template or a name refers to, and the node that names it."""
    target = node.child_by_field_name("function") or node
    while target.type in ("qualified_identifier", "parenthesized_expression", "pointer_expression"):
        target = target.child_by_field_name("name") or target.named_children[-1]
    return text_of(target.child_by_field_name("name") or target), target


def arguments(node: Node | None) -> list[Node]:
    """The arguments of a call, a constructor, a template or an initializer list."""
    if node is None:
        return []
    inner = node.child_by_field_name("arguments") or node.child_by_field_name("value") or node
    return [child for child in inner.named_children if child.type != "comment"]
