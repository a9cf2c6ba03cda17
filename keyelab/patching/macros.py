"""C expressions and the preprocessor: the lines and macros of a file that one pass sees."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Names = dict[str, Any]
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINE = re.compile(r"(\w+)(?:\(([^()]*)\))?\s*(.*)")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")


class Unreadable(Exception):
    """Source that this reader does not understand; the text says what and where."""


@dataclass(frozen=True)
class Symbol:
    """A name whose value nobody needs to know, like an enumerator: it equals only itself."""

    name: str

    def __bool__(self) -> bool:
        raise Unreadable(f"the value of {self.name} is not known")


@dataclass(frozen=True)
class Macro:
    """A macro: None for the parameters of one without parentheses."""

    parameters: list[str] | None
    body: str


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def parse(text: str) -> Node:
    """The root of the syntax tree of CUDA C++."""
    return _parser().parse(text.encode()).root_node


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


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Symbol) != isinstance(right, Symbol):
        raise Unreadable(f"{left} compared with {right}")
    return bool(left == right)


def _divide(left: Any, right: Any) -> Any:
    return left // right if isinstance(left, int) and isinstance(right, int) else left / right


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": _same,
    "!=": lambda left, right: not _same(left, right),
    "/": _divide,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"!": operator.not_, "-": operator.neg, "+": operator.pos}


class Macros:
    """The macros of one pass, and the value of an expression under them."""

    def __init__(self, definitions: Iterable[str]) -> None:
        """`definitions` are NAME or NAME=VALUE, as behind a compiler's -D."""
        self.table: dict[str, Macro] = {}
        for definition in definitions:
            name, _, body = definition.partition("=")
            self.table[name] = Macro(None, body or "1")

    def value(self, node: Node, names: Names) -> Any:
        """The value of an expression; raises Unreadable for what is not understood."""
        read = getattr(self, f"_{node.type}", None)
        if read is None or node.has_error:
            raise Unreadable(f"{node.type}: {text_of(node)[:60]}")
        try:
            return read(node, names)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise Unreadable(f"{text_of(node)[:60]}: {error}") from None

    def missing(self, name: str) -> Any:
        """The value of a name that is neither a variable nor a macro; in a condition it is 0."""
        return 0

    def call(self, node: Node, names: Names) -> Any:
        """The value of a call that is not one of a macro."""
        raise Unreadable(f"call: {text_of(node)[:60]}")

    def _part(self, node: Node, field: str, names: Names) -> Any:
        part = node.child_by_field_name(field)
        if part is None:
            raise Unreadable(text_of(node)[:60])
        return self.value(part, names)

    def _number_literal(self, node: Node, names: Names) -> Any:
        text = text_of(node).lower().replace("'", "")
        if text.startswith("0x") or "." not in text:
            return int(text.rstrip("ul"), 0)
        return float(text.rstrip("f"))

    def _true(self, node: Node, names: Names) -> bool:
        return True

    def _false(self, node: Node, names: Names) -> bool:
        return False

    def _null(self, node: Node, names: Names) -> None:
        return None

    def _identifier(self, node: Node, names: Names) -> Any:
        name = text_of(node)
        if name in names:
            return names[name]
        macro = self.table.get(name)
        if macro is not None and macro.parameters is None:
            return self.value(expression(macro.body), {})
        return self.missing(name)

    def _parenthesized_expression(self, node: Node, names: Names) -> Any:
        return self.value(node.named_children[0], names)

    _condition_clause = _parenthesized_expression

    def _cast_expression(self, node: Node, names: Names) -> Any:
        return self._part(node, "value", names)

    def _unary_expression(self, node: Node, names: Names) -> Any:
        sign = text_of(node.child_by_field_name("operator"))
        return _UNARY[sign](self._part(node, "argument", names))

    def _binary_expression(self, node: Node, names: Names) -> Any:
        sign = text_of(node.child_by_field_name("operator"))
        left = self._part(node, "left", names)
        if sign in ("&&", "||"):
            return bool(left if bool(left) == (sign == "||") else self._part(node, "right", names))
        return BINARY[sign](left, self._part(node, "right", names))

    def _conditional_expression(self, node: Node, names: Names) -> Any:
        chosen = "consequence" if self._part(node, "condition", names) else "alternative"
        return self._part(node, chosen, names)

    def _call_expression(self, node: Node, names: Names) -> Any:
        macro = self.table.get(text_of(node.child_by_field_name("function")))
        if macro is None or macro.parameters is None:
            return self.call(node, names)
        arguments = node.child_by_field_name("arguments")
        values = [self.value(a, names) for a in (arguments.named_children if arguments else [])]
        return self.value(expression(macro.body), dict(zip(macro.parameters, values, strict=True)))

    def holds(self, condition: str) -> bool:
        """The truth of the condition of an #if; a name that is not defined counts as 0."""
        plain = _DEFINED.sub(lambda m: str(int((m[1] or m[2]) in self.table)), condition)
        return bool(Macros.value(self, expression(plain), {}))

    def lines(self, text: str, include: Callable[[str], None]) -> Iterator[str]:
        """The active lines of a file, without comments; keeps its macros, calls `include`."""
        active, taken = [True], [True]  # of each open #if: this branch; any branch so far
        text = _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", text.replace("\\\n", " "))
        for line in text.split("\n"):
            found = _DIRECTIVE.match(line)
            if found is None:
                if active[-1]:
                    yield line
                continue
            word, rest = found.groups()
            if word in ("if", "ifdef", "ifndef"):
                active.append(active[-1] and self._branch(word, rest))
                taken.append(active[-1] or not active[-2])
            elif word in ("elif", "else"):
                active[-1] = not taken[-1] and (word == "else" or self.holds(rest))
                taken[-1] = taken[-1] or active[-1]
            elif word == "endif":
                active.pop()
                taken.pop()
            elif active[-1]:
                self._directive(word, rest, include)

    def _branch(self, word: str, rest: str) -> bool:
        if word == "if":
            return self.holds(rest)
        return (rest.strip() in self.table) == (word == "ifdef")

    def _directive(self, word: str, rest: str, include: Callable[[str], None]) -> None:
        if word == "define" and (found := _DEFINE.match(rest)):
            name, parameters, body = found.groups()
            listed = None if parameters is None else [p.strip() for p in parameters.split(",")]
            self.table[name] = Macro(listed, body.strip())
        elif word == "undef":
            self.table.pop(rest.strip(), None)
        elif word == "include" and rest.startswith('"'):
            include(rest.split('"')[1])
