"""The ggml operations behind the functions of the CUDA sources, and the limits they promise."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from keyelab.patching.cuda.body import Guard
from keyelab.patching.cuda.syntax import captured, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from keyelab.patching.cuda.kernels import Function, Kernels

_NAME = re.compile(r"[A-Za-z_]\w*")
_ENTRY = re.compile(r"ggml_cuda_(?:op_)?(\w+)")
_PREFIX = "GGML_OP_"


class Ops:
    """Which operations a function serves.

    The switch of ggml_cuda_compute_forward names the functions of each operation; what supports_op
    returns for an operation limits what they are given.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._serves: dict[str, set[str]] = defaultdict(set)
        self._limits: dict[str, list[Guard]] = defaultdict(list)
        self._users: dict[str, set[str]] = defaultdict(set)
        self._known: dict[str, tuple[str, ...]] = {}
        ops: set[str] = set()
        for name, functions in kernels.functions.items():
            for function in functions:
                text = text_of(function.node)
                for used in set(_NAME.findall(text)) & kernels.functions.keys():
                    self._users[used].add(name)
                if name == "ggml_cuda_compute_forward":
                    for labels, case in _cases(function.node):
                        ops |= labels
                        for used in set(_NAME.findall(text_of(case))) & kernels.functions.keys():
                            self._serves[used] |= labels
                elif name.endswith("supports_op"):
                    self._promise(function)
        self._handed = set(self._serves)
        for name in kernels.functions:  # what is fused is not in the switch
            entry = _ENTRY.fullmatch(name)
            fits = [op for op in ops if entry and f"{entry[1].upper()}_".startswith(f"{op}_")]
            if fits and name not in self._serves:
                self._serves[name].add(max(fits, key=len))

    def _promise(self, function: Function) -> None:
        for labels, case in _cases(function.node):
            last = [n for n in case.named_children if n.type == "return_statement"]
            for op in labels if last and last == case.named_children[-1:] else ():
                self._limits[op] += [Guard(node) for node in last[0].named_children[:1]]

    def of(self, name: str) -> tuple[str, ...]:
        """The operations that reach a function, by the names that its callers mention."""
        if name not in self._known:
            seen, todo, found = {name}, [name], set[str]()
            while todo:
                user = todo.pop()
                found |= self._serves.get(user, set())
                new = self._users[user] - seen - {"ggml_cuda_compute_forward"}
                seen |= new
                todo += new
            self._known[name] = tuple(sorted(found))
        return self._known[name]

    def serves(self, name: str) -> bool:
        """True for a function that an operation is handed to."""
        return name in self._handed

    def limits(self, name: str) -> list[list[Guard]]:
        """What is promised to the function, for each operation that it is the first to serve."""
        return [self._limits[op] for op in self._serves.get(name, ())]


def _cases(root: Node) -> list[tuple[set[str], Node]]:
    """The cases of the switches over operations, each with all its labels."""
    found, waiting = [], set[str]()
    for node in captured(root, "(case_statement) @case")["case"]:
        label = text_of(node.child_by_field_name("value"))
        if label.startswith(_PREFIX):
            waiting.add(label.removeprefix(_PREFIX))
        if len(node.named_children) > 1:
            found.append((waiting, node))
            waiting = set()
    return [(labels, node) for labels, node in found if labels]
