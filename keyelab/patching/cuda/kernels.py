"""The CUDA sources of a tree as one HIP pass sees them: functions, calls, macros, structures."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from keyelab.errors import UsageError
from keyelab.files import shown
from keyelab.patching.cuda.nodes import declared
from keyelab.patching.cuda.sources import Sources
from keyelab.patching.macros import Macro, parse, text_of

if TYPE_CHECKING:
    from tree_sitter import Node, Query

KERNELS = "ggml/src/ggml-cuda"
LAUNCHERS = {"ggml_cuda_kernel_launch", "cudaLaunchCooperativeKernel", "hipLaunchKernelGGL"}
_QUERY = """
(function_definition) @function
(kernel_call_syntax) @launch
(call_expression function: [
  (identifier) @call
  (template_function name: (identifier) @call)
  (qualified_identifier name: [(identifier) @call (template_function name: (identifier) @call)])])
(return_statement (template_function name: (identifier) @call))
(translation_unit (declaration) @constant)
(enumerator_list) @enum
(struct_specifier name: (type_identifier) body: (_)) @struct
"""


@dataclass(frozen=True, eq=False)
class Function:
    """A function with its parameters and, where it is a template, its template parameters.

    `passes` are the compiler passes, host or device, that can call it.
    """

    name: str
    file: str
    node: Node
    parameters: list[Node]
    template: list[Node]
    passes: frozenset[str]
    is_kernel: bool

    @cached_property
    def names(self) -> list[str]:
        """The names of its parameters, empty for one without."""
        return [declared(node) for node in self.parameters]

    @cached_property
    def template_names(self) -> list[str]:
        """The names of its template parameters."""
        return [declared(node) for node in self.template]

    @cached_property
    def bound(self) -> Node | None:
        """The first argument of its __launch_bounds__."""
        for node in _descendants(self.node, {"launch_bounds"}, {"compound_statement"}):
            return node.named_children[0]
        return None


@dataclass(frozen=True, eq=False)
class Call:
    """A call by name, or a template whose address is taken, and the function that it stands in."""

    node: Node
    inside: Function


@dataclass
class Kernels:
    """Everything that is looked up by name; `cc` and `warp` are what the host reads at run time."""

    cc: int
    warp: int
    functions: dict[str, list[Function]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    launches: list[Call] = field(default_factory=list)
    constants: dict[str, Node] = field(default_factory=dict)
    enumerators: dict[str, int] = field(default_factory=dict)
    fields: dict[str, list[str]] = field(default_factory=dict)
    macros: dict[str, dict[str, Macro]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)


def has_kernels(tree: Path) -> bool:
    """True when the tree holds CUDA sources where ggml has them."""
    return any((tree / KERNELS).glob("*.cu"))


def read_kernels(tree: Path, arch: str) -> Kernels:
    """The kernels of `tree` as the compiler sees them for `arch` (a gfx name).

    Raises UsageError when the tree has no kernels or the name is no gfx name.
    """
    folder = tree / KERNELS
    if not has_kernels(tree):
        raise UsageError(
            f"expected a llama.cpp tree with kernels in {KERNELS}, found none in {shown(tree)}",
            "name the folder that holds ggml/ and src/",
        )
    number = re.fullmatch(r"gfx([0-9a-f]{3,4})", arch)
    if number is None:
        raise UsageError(f"expected a name like gfx928, found {arch!r}", "rocminfo | grep gfx")
    wide = number[1][:-2] in ("8", "9")
    code = Kernels(cc=int(number[1], 16), warp=64 if wide else 32)
    names = ("GGML_USE_HIP", "__HIP_PLATFORM_AMD__", "__HIP__", "__clang__", "__linux__")
    family = f"__GFX{number[1][:-2]}__"
    sources = Sources(folder, [*names, "HIP_VERSION=60300000", family, f"__{arch}__"])
    for file in sources.files:
        _index(code, file, parse(sources.text(file)))
        code.macros[file] = sources.macros(file)
        code.skipped[file] = sources.skipped[file]
    return code


def _descendants(node: Node, wanted: set[str], closed: set[str]) -> Iterator[Node]:
    for child in node.children:
        if child.type in wanted:
            yield child
        elif child.type not in closed:
            yield from _descendants(child, wanted, closed)


@lru_cache(maxsize=1)
def _query() -> Query:
    import tree_sitter_cuda
    from tree_sitter import Language, Query

    return Query(Language(tree_sitter_cuda.language()), _QUERY)  # type: ignore[no-any-return]


def _index(code: Kernels, file: str, root: Node) -> None:
    from tree_sitter import QueryCursor

    found = QueryCursor(_query()).captures(root)
    functions: dict[int, Function] = {}
    for node in found.get("function", []):
        function = _function(file, node)
        functions[node.id] = function
        code.functions[function.name].append(function)
    for name in found.get("call", []):
        call = name.parent
        while call is not None and call.type in ("template_function", "qualified_identifier"):
            if call.parent is not None and call.parent.type == "return_statement":
                break  # its address is given away: called with unknown arguments
            call = call.parent
        if call is not None and (inside := _enclosing(call, functions)):
            code.calls[text_of(name)].append(Call(call, inside))
            if text_of(name) in LAUNCHERS:
                code.launches.append(Call(call, inside))
    for syntax in found.get("launch", []):
        if syntax.parent is not None and (inside := _enclosing(syntax, functions)):
            code.launches.append(Call(syntax.parent, inside))
    for node in found.get("constant", []):
        for part in node.named_children:
            if part.type == "init_declarator" and (value := part.child_by_field_name("value")):
                code.constants[declared(part)] = value
    for node in found.get("enum", []):
        last = -1
        for part in [n for n in node.named_children if n.type == "enumerator"]:
            given = part.child_by_field_name("value")
            last = int(text_of(given), 0) if given and text_of(given).isdigit() else last + 1
            code.enumerators[declared(part)] = last
    for node in found.get("struct", []):
        body = node.child_by_field_name("body")
        parts = body.named_children if body else []
        code.fields[declared(node)] = [
            declared(part) for part in parts if part.type == "field_declaration"
        ]


def _function(file: str, node: Node) -> Function:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = next((c for c in declarator.named_children if "declarator" in c.type), None)
    outer = node.parent
    holder = outer.parent if outer else None
    if holder is not None and outer is not None and outer.type == "template_declaration":
        holder = holder.parent
    named = declared(declarator)
    if not named and holder is not None and holder.type == "struct_specifier":
        named = declared(holder)  # its operator()
    templates = outer if outer is not None and outer.type == "template_declaration" else None
    return Function(
        named,
        file,
        node,
        _listed(declarator),
        _listed(templates),
        _passes(node),
        any(c.type == "__global__" for c in node.children),
    )


def _passes(node: Node) -> frozenset[str]:
    marks = {child.type for child in node.children}
    device = {"device"} if marks & {"__device__", "__global__"} else set[str]()
    return frozenset(device | ({"host"} if "__host__" in marks or not device else set[str]()))


def _listed(node: Node | None) -> list[Node]:
    listed = node.child_by_field_name("parameters") if node else None
    return [n for n in listed.named_children if "declaration" in n.type] if listed else []


def _enclosing(node: Node, functions: dict[int, Function]) -> Function | None:
    above = node.parent
    while above is not None and above.id not in functions:
        above = above.parent
    return functions[above.id] if above is not None else None
