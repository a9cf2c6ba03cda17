"""The CUDA sources of a tree as one HIP pass sees them: functions, calls, macros, structures."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from keyelab.errors import UsageError
from keyelab.files import shown
from keyelab.patching.cuda.interpreter import Macro
from keyelab.patching.cuda.sources import Sources
from keyelab.patching.cuda.syntax import captured, declared, parse, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

KERNELS = "ggml/src/ggml-cuda"
HIP = ("GGML_USE_HIP", "__HIP_PLATFORM_AMD__", "__HIP__", "__clang__")
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
    """A function; `passes` are the compiler passes, host or device, that can call it."""

    file: str
    node: Node
    name: str
    parameters: list[Node]
    template: list[Node]
    passes: frozenset[str]

    @cached_property
    def names(self) -> list[str]:
        """The names of its parameters, empty for one without."""
        return [declared(node) for node in self.parameters]

    @cached_property
    def template_names(self) -> list[str]:
        """The names of its template parameters."""
        return [declared(node) for node in self.template]

    @property
    def is_kernel(self) -> bool:
        """True when the host can launch it."""
        return any(child.type == "__global__" for child in self.node.children)

    @property
    def bound(self) -> Node | None:
        """The first argument of its __launch_bounds__."""
        found = [n for n in self.node.named_children if n.type == "launch_bounds"]
        return found[0].named_children[0] if found else None

    @property
    def body(self) -> Node:
        """Its statements."""
        return self.node.named_children[-1]

    def takes(self, given: int) -> bool:
        """True when a call can give so many arguments."""
        least = sum(n.child_by_field_name("default_value") is None for n in self.parameters)
        return least <= given <= len(self.parameters)


@dataclass(frozen=True, eq=False)
class Call:
    """A call by name, or a template whose address is taken, and the function that it stands in.

    `syntax` is what stands in <<<>>>.
    """

    node: Node
    inside: Function
    syntax: Node | None = None


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
    number, lanes, named = chip(arch)
    code = Kernels(number, lanes)
    sources = Sources(folder, [*HIP, "__linux__", "HIP_VERSION=60300000", *named], unsure=True)
    # a launch too many can be looked at, one too few cannot; sources before headers
    for path in (*sorted(folder.rglob("*.cu")), *sorted(folder.rglob("*.cuh"))):
        file = path.relative_to(folder).as_posix()
        sources.include(file)
        _index(code, file, parse(sources.written_out(file)))
    code.macros = sources.macros
    return code


def chip(arch: str) -> tuple[int, int, list[str]]:
    """The number of a chip such as gfx928, the lanes of its wavefront, the macros of its name."""
    found = re.fullmatch(r"gfx([0-9]+)[0-9a-f]{2}", arch)
    if found is None:
        raise UsageError(f"expected a name like gfx928, found {arch!r}", "rocminfo | grep gfx")
    lanes = 64 if found[1] in ("8", "9") else 32  # as the driver reports them
    return int(arch[3:], 16), lanes, [f"__{arch}__", f"__GFX{found[1]}__"]


def functions_of(file: str, root: Node) -> list[Function]:
    """The functions that a file defines."""
    return [_function(file, node) for node in captured(root, _QUERY)["function"]]


def _index(code: Kernels, file: str, root: Node) -> None:
    found = captured(root, _QUERY)
    functions = {node.id: _function(file, node) for node in found["function"]}
    for function in functions.values():
        code.functions[function.name].append(function)
    for name in found["call"]:
        call = name.parent
        while call is not None and call.type in ("template_function", "qualified_identifier"):
            if call.parent is not None and call.parent.type == "return_statement":
                break  # its address is given away: called with unknown arguments
            call = call.parent
        if call is not None and (inside := _enclosing(call, functions)):
            code.calls[text_of(name)].append(Call(call, inside))
            if text_of(name) in LAUNCHERS:
                code.launches.append(Call(call, inside))
    for syntax in found["launch"]:
        if syntax.parent is not None and (inside := _enclosing(syntax, functions)):
            code.launches.append(Call(syntax.parent, inside, syntax))
    for node in found["constant"]:
        for part in node.named_children:
            if part.type == "init_declarator" and (value := part.child_by_field_name("value")):
                code.constants[declared(part)] = value
    for node in found["enum"]:
        last = -1
        for part in [n for n in node.named_children if n.type == "enumerator"]:
            given = part.child_by_field_name("value")
            last = int(text_of(given), 0) if given and text_of(given).isdigit() else last + 1
            code.enumerators[declared(part)] = last
    for node in found["struct"]:
        body = node.child_by_field_name("body")
        parts = body.named_children if body else []
        code.fields[declared(node)] = [
            declared(part) for part in parts if part.type == "field_declaration"
        ]


def _function(file: str, node: Node) -> Function:
    declarator, outer = node.child_by_field_name("declarator"), node.parent
    while declarator is not None and declarator.type != "function_declarator":
        declarator = next((c for c in declarator.named_children if "declarator" in c.type), None)
    template = outer if outer is not None and outer.type == "template_declaration" else None
    around = (template or node).parent
    name = declared(declarator) or declared(around.parent if around else None)  # an operator()
    marks = {child.type for child in node.children}
    passes = {"device"} if marks & {"__device__", "__global__"} else set()
    if "__host__" in marks or not passes:
        passes.add("host")
    return Function(file, node, name, _listed(declarator), _listed(template), frozenset(passes))


def _listed(node: Node | None) -> list[Node]:
    listed = node.child_by_field_name("parameters") if node else None
    return [n for n in listed.named_children if "declaration" in n.type] if listed else []


def _enclosing(node: Node, functions: dict[int, Function]) -> Function | None:
    above = node.parent
    while above is not None and above.id not in functions:
        above = above.parent
    return functions[above.id] if above is not None else None
