"""The functions of a CUDA source as one compiler pass sees them, and what they return.

An interpreter of the little C++ in which ggml chooses kernels: arithmetic, branches, loops and
calls, no pointers and no memory. Whatever else a function does is Unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyelab.patching.macros import Macros, Names, Symbol, Unreadable, expression, parse, text_of
from keyelab.patching.statements import Statements, name_of

if TYPE_CHECKING:
    from tree_sitter import Node

# what they do is nothing to a choice of kernels; memcpy reads parameters that are all 0 here
_NO_EFFECT = {"GGML_ASSERT", "GGML_UNUSED", "GGML_UNUSED_VARS", "memcpy"}


def _definitions(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == "function_definition":
            yield child
        elif child.type not in ("declaration", "initializer_list", "expression_statement"):
            yield from _definitions(child)


def _parameters(node: Node | None) -> list[tuple[str, Node | None]]:
    found = [] if node is None else [n for n in node.named_children if "parameter_decl" in n.type]
    return [
        (name_of(n.child_by_field_name("declarator")), n.child_by_field_name("default_value"))
        for n in found
    ]


@dataclass(frozen=True)
class Function:
    """A function: names and defaults of its template and call parameters, and its body."""

    name: str
    template: list[tuple[str, Node | None]]
    parameters: list[tuple[str, Node | None]]
    head: str
    body: Node
    bounds: Node | None

    @property
    def on_device(self) -> bool:
        """True when the device's pass can call or start it."""
        return "__device__" in self.head or "__global__" in self.head

    @property
    def on_host(self) -> bool:
        """True when the host's pass can call it."""
        return "__host__" in self.head or not self.on_device

    @property
    def without_code(self) -> bool:
        """True when it always ends in ggml's NO_DEVICE_CODE trap: this pass has no code for it."""
        trap = "NO_DEVICE_CODE"
        if any(n.type == "ERROR" and trap in text_of(n) for n in self.body.named_children):
            raise Unreadable(f"{trap} of {self.name} stands where the text does not parse")
        return any(text_of(n) == f"{trap};" for n in self.body.named_children)


@lru_cache(maxsize=256)  # most files read the same on both sides and in the next tree
def _functions(text: str) -> tuple[Function, ...]:
    return tuple(_found(parse(text)))


def _found(root: Node) -> Iterator[Function]:
    for node in _definitions(root):
        body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = next(
                (n for n in declarator.named_children if n.type.endswith("declarator")), None
            )
        if body is None or declarator is None:
            continue
        outer = node.parent
        templated = outer is not None and outer.type == "template_declaration"
        bounds = [n for n in node.named_children if n.type == "launch_bounds"]
        yield Function(
            name_of(declarator),
            _parameters(outer.child_by_field_name("parameters") if outer and templated else None),
            _parameters(declarator.child_by_field_name("parameters")),
            (node.text or b"")[: body.start_byte - node.start_byte].decode(),
            body,
            bounds[0].named_children[0] if bounds else None,
        )


class Code(Statements):
    """The functions of the files included so far, for the host's pass or for the device's.

    `given` are functions that are answered here instead of being read, by name.
    """

    def __init__(self, folder: Path, definitions: Iterable[str], *, device: bool) -> None:
        super().__init__(())
        self.conditions = Macros(definitions)
        self.table = self.conditions.table
        self.folder, self.device = folder.resolve(), device
        self.functions: dict[str, list[Function]] = {}
        self.given: dict[str, Callable[..., Any]] = {}
        self.seen: set[Path] = set()

    def including(self, *files: str) -> Code:
        """A copy of this that has included more files of the folder."""
        copy = Code(self.folder, (), device=self.device)
        copy.table.update(self.table)
        copy.functions = {name: list(found) for name, found in self.functions.items()}
        copy.given, copy.seen = dict(self.given), set(self.seen)
        for file in files:
            if not (self.folder / file).is_file():
                raise Unreadable(f"no file {file}")
            copy._include(self.folder / file)
        return copy

    def _include(self, path: Path) -> None:
        if path in self.seen:
            return
        self.seen.add(path)

        def nested(name: str) -> None:
            places = (path.parent / name, self.folder / name)
            for place in [p.resolve() for p in places if p.is_file()][:1]:
                self._include(place)

        source = path.read_text(encoding="utf-8", errors="replace")
        for function in _functions("\n".join(self.conditions.lines(source, nested))):
            self.functions.setdefault(function.name, []).append(function)

    def function(self, name: str, arguments: int | None = None) -> Function:
        """The one function of this name that the pass can call with so many arguments."""
        mine = (lambda f: f.on_device) if self.device else (lambda f: f.on_host)
        found = list(filter(mine, self.functions.get(name, [])))
        if arguments is not None:
            found = [
                f
                for f in found
                if sum(d is None for _, d in f.parameters) <= arguments <= len(f.parameters)
            ]
        if len(found) != 1:
            raise Unreadable(f"expected one function {name}, found {len(found)}")
        return found[0]

    def result(self, name: str, **known: Any) -> Any:
        """What the function returns for parameters of these names; it may have fewer."""
        function = self.function(name)
        return self._run(function, {k: known[k] for k, _ in function.parameters if k in known})

    def bound(self, kernel: str, **template: Any) -> int | None:
        """The threads a block in __launch_bounds__ for these template arguments; None without."""
        function = self.function(kernel)
        if function.bounds is None:
            return None
        return int(self.value(function.bounds, self._complete(function.template, template)))

    def evaluate(self, text: str) -> Any:
        """The value of an expression under the macros of the pass."""
        return self.value(expression(text), {})

    def missing(self, name: str) -> Any:
        """An enumerator, which ggml writes like GGML_TYPE_F16; any other name is Unreadable."""
        if not name.isupper() or "_" not in name:
            raise Unreadable(f"the value of {name} is not known")
        return Symbol(name)

    def call(self, node: Node, names: Names) -> Any:
        """What a function returns that the source calls."""
        target = node.child_by_field_name("function")
        given = node.child_by_field_name("arguments")
        template: list[Any] = []
        if target is not None and target.type == "template_function":
            written = target.child_by_field_name("arguments")
            template = [
                names.get(text_of(n), Symbol(text_of(n)))
                if n.type == "type_descriptor"
                else self.value(n, names)
                for n in (written.named_children if written else [])
            ]
            target = target.child_by_field_name("name")
        name = text_of(target)
        if name in _NO_EFFECT:
            return None
        values = [self.value(n, names) for n in (given.named_children if given else [])]
        if name in self.given:
            return self.given[name](*values)
        function = self.function(name, len(values))
        arguments = dict(zip([n for n, _ in function.parameters], values, strict=False))
        arguments |= zip([n for n, _ in function.template], template, strict=False)
        return self._run(function, arguments)

    def _complete(self, parameters: list[tuple[str, Node | None]], names: Names) -> Names:
        """The arguments, with the defaults of those that are not given."""
        defaults = {n: self.value(d, {}) for n, d in parameters if n not in names and d is not None}
        return defaults | names

    def _run(self, function: Function, arguments: Names) -> Any:
        names = self._complete(function.template + function.parameters, arguments)
        return self.returned(function.body, names)
