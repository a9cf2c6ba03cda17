"""Names, arguments and texts of syntax nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyelab.patching.macros import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = ("identifier", "declarator")


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


def plain(node: Node | None) -> str:
    """The text of a node without white space."""
    return "".join(text_of(node).split())


def within(inner: Node, outer: Node) -> bool:
    """True when one node lies in the other, of the same file."""
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def called(node: Node) -> tuple[str, Node]:
    """The last name of what a call, a template or a name refers to, and the node that names it."""
    target = node.child_by_field_name("function") or node
    while target.type in ("qualified_identifier", "parenthesized_expression", "pointer_expression"):
        inner = target.child_by_field_name("name") or target.named_children[-1]
        target = inner
    return text_of(target.child_by_field_name("name") or target), target


def arguments(node: Node | None) -> list[Node]:
    """The arguments of a call, a constructor, a template or an initializer list."""
    if node is None:
        return []
    inner = node.child_by_field_name("arguments") or node.child_by_field_name("value") or node
    return [child for child in inner.named_children if child.type != "comment"]
