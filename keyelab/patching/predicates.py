"""The functions of a CUDA source as one compiler pass sees them, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyelab.patching.cuda.interpreter import Interpreter, Names
from keyelab.patching.cuda.kernels import Function, functions_of
from keyelab.patching.cuda.sources import Sources
from keyelab.patching.cuda.syntax import (
    Unreadable,
    arguments,
    called,
    declared,
    expression,
    parse,
    text_of,
)
from keyelab.patching.cuda.values import Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

# what they do is nothing to a choice of kernels; memcpy reads parameters that are all 0 here
_NO_EFFECT = {"GGML_ASSERT", "GGML_UNUSED", "GGML_UNUSED_VARS", "memcpy"}
_TRAP = "NO_DEVICE_CODE"


@lru_cache(maxsize=256)  # most files read the same on both sides and in the next tree
def _functions(text: str) -> list[Function]:
    return functions_of("", parse(text))


class Code(Interpreter):
    """The functions of the files included so far, for the host's pass or for the device's.

    `given` are functions that are answered here instead of being read, by name.
    """

    def __init__(self, folder: Path, definitions: Iterable[str], *, device: bool) -> None:
        super().__init__({})
        self.sources = Sources(folder, definitions)
        self.side = "device" if device else "host"
        self.functions: dict[str, list[Function]] = {}
        self.given: dict[str, Callable[..., Any]] = {}
        self.files: set[str] = set()

    def including(self, file: str) -> Code:
        """A copy of this that has included one more file of the folder."""
        if not (self.sources.folder / file).is_file():
            raise Unreadable(f"no file {file}")
        self.sources.include(file)
        more = copy(self)
        more.table, more.given = self.table | self.sources.macros[file], dict(self.given)
        more.files = self.files | self.sources.within(file)
        more.functions = {name: list(found) for name, found in self.functions.items()}
        for one in more.files - self.files:
            for function in _functions(self.sources.texts[one]):
                more.functions.setdefault(function.name, []).append(function)
        return more

    def function(self, name: str, given: int | None = None) -> Function:
        """The one function of this name that the pass can call with so many arguments."""
        found = [f for f in self.functions.get(name, []) if self.side in f.passes]
        found = [f for f in found if given is None or f.takes(given)]
        if len(found) != 1:
            raise Unreadable(f"expected one function {name}, found {len(found)}")
        return found[0]

    def without_code(self, name: str) -> bool:
        """True when the function always ends in ggml's trap: this pass has no code for it."""
        body = self.function(name).body.named_children
        if any(n.type == "ERROR" and _TRAP in text_of(n) for n in body):
            raise Unreadable(f"{_TRAP} of {name} stands where the text does not parse")
        return any(text_of(n) == f"{_TRAP};" for n in body)

    def result(self, name: str, **known: Any) -> Any:
        """What the function returns for parameters of these names; it may have fewer."""
        function = self.function(name)
        return self._result(function, {k: known[k] for k in function.names if k in known})

    def bound(self, kernel: str, **template: Any) -> int | None:
        """The threads a block in __launch_bounds__ for these template arguments; None without."""
        function = self.function(kernel)
        if function.bound is None:
            return None
        return int(self.value(function.bound, self._complete(function.template, template)))

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
        name, target = called(node)
        if name in _NO_EFFECT:
            return None
        values = [self.value(one, names) for one in arguments(node)]
        if name in self.given:
            return self.given[name](*values)
        function = self.function(name, len(values))
        known = dict(zip(function.names, values, strict=False))
        for parameter, one in zip(function.template_names, arguments(target), strict=False):
            is_type, text = one.type == "type_descriptor", text_of(one)
            known[parameter] = names.get(text, Symbol(text)) if is_type else self.value(one, names)
        return self._result(function, known)

    def _complete(self, parameters: list[Node], names: Names) -> Names:
        """The arguments, with the defaults of those that are not given."""
        optional = {declared(n): n.child_by_field_name("default_value") for n in parameters}
        return {
            **{n: self.value(d, {}) for n, d in optional.items() if d and n not in names},
            **names,
        }

    def _result(self, function: Function, known: Names) -> Any:
        names = self._complete([*function.template, *function.parameters], known)
        return self.returned(function.body, names)
