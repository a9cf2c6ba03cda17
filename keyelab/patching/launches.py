"""Every kernel launch of a tree: where, how many threads at most, and what the kernel expects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from keyelab.patching.cuda.blocks import Blocks
from keyelab.patching.cuda.bounds import Scope
from keyelab.patching.cuda.calls import Place, at
from keyelab.patching.cuda.kernels import LAUNCHERS, Call, Function, Kernels, read_kernels
from keyelab.patching.cuda.syntax import arguments, called, text_of
from keyelab.patching.cuda.values import NEVER, Values, most, union

if TYPE_CHECKING:
    from tree_sitter import Node

_SIZE = re.compile(r"block_?size", re.IGNORECASE)
_TYPE = "ggml_type type"


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel, and how far its block agrees with what the kernel is compiled for.

    `threads` is the most that a block can have, None when that cannot be told (`why` says what
    is missing) and 0 when the architecture never comes here. `compiled` is the block size among
    its template arguments, where it differs from the started one if it does in any instance.
    `bound` is its explicit launch bound as written and `allowed` the value, None when it cannot be
    told. `slots` counts the partial sums that every lane reads, written or not. `quantized` kernels
    are compiled for each type of quantized weights.
    """

    file: str
    line: int
    kernel: str
    block: str
    threads: int | None
    why: str = ""
    compiled: int | None = None
    agrees: bool = True
    bound: str = ""
    allowed: int | None = None
    slots: int | None = None
    quantized: bool = False
    ops: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, and the kernel with its template arguments."""
        return f"{self.file}:{self.line} {self.kernel}"

    def __str__(self) -> str:
        size = f"{self.threads:,} threads" if self.threads is not None else f"? ({self.why})"
        return f"{self.place} {size}"


def launches(tree: Path, arch: str = "gfx928") -> list[Launch]:
    """Every launch that a HIP build for `arch` compiles, by file and line.

    Raises UsageError for a folder without the kernels or a name that is no gfx name.
    """
    audit = _Audit(read_kernels(tree, arch))
    found = [launch for call in audit.kernels.launches for launch in audit.launches(call)]
    return sorted(found, key=lambda launch: (launch.file, launch.line, launch.kernel))


class _Audit(Blocks):
    def __init__(self, kernels: Kernels) -> None:
        super().__init__(kernels)
        self._reached: dict[Function, bool] = {}

    def launches(self, call: Call) -> Iterator[Launch]:
        kernel = call.node.child_by_field_name("function")
        if call.syntax is None:
            kernel = next(iter(arguments(call.node)), None)
        if kernel is None or call.inside.name in LAUNCHERS:
            return
        base = at(call)
        callers = [replace(scope, place=call.node) for scope in self.callers(call.inside)]
        scopes = callers if callers and self._depends(call, kernel, base) else [base]
        groups: dict[tuple[str, int, str], list[tuple[Node, Scope, Scope]]] = defaultdict(list)
        for scope in scopes:
            for origin, where in self.origins(kernel, scope):
                place = call.syntax or call.node
                if where.function is not call.inside and scope.call is not None:
                    place = scope.call  # the kernel is the caller's: so is the launch
                line = place.start_point.row + 1
                groups[where.file, line, called(origin)[0]].append((origin, where, scope))
        for (file, line, _), found in groups.items():
            yield self._launch(file, line, call, found)

    def _blocks(self, call: Call, scope: Scope) -> list[Place]:
        """The block expressions of a launch: its own, or those of its launch parameters."""
        given = arguments(call.node)
        if call.syntax:
            return [(call.syntax.named_children[1], scope)]
        if called(call.node)[0] != "ggml_cuda_kernel_launch":
            return [(part, scope) for part in given[2:3]]
        listed = [(arguments(o), where) for o, where in self.origins(given[1], scope)]
        return [(parts[1], where) for parts, where in listed if len(parts) > 1]

    def _launch(
        self, file: str, line: int, call: Call, found: list[tuple[Node, Scope, Scope]]
    ) -> Launch:
        self.missing = ""
        threads, allowed = list[Values](), NEVER
        sizes: list[tuple[int, int]] = []
        kernel = self._function(*found[0][:2])
        for origin, where, scope in found:
            threads.append(one := self._started(call, scope))
            if kernel is None or one == NEVER:
                continue
            inner = Scope(kernel, kernel.file, origin, where)
            if kernel.bound is not None:
                allowed = union((allowed, self.of(kernel.bound, inner)))
            for name in filter(_SIZE.search, kernel.template_names):
                size = union(self.of(*place) for place in self._given(name, inner))
                if size and one and most(size):  # 0 stands for the size of the launch
                    sizes.append((most(size), most(one)))
        apart = [pair for pair in sizes if pair[0] != pair[1]]
        started = union(threads)
        top = None if started is None else most(started)
        user = found[0][1].function
        quantized = bool(kernel and _TYPE in map(text_of, kernel.template))
        exceeds = top is not None and (top > most(allowed) if allowed else quantized)
        if exceeds and user and not self._used(user):
            top = 0  # looked for only where it makes a difference: it takes long
        block = next((node for node, _ in self._blocks(call, found[0][2])), None)
        why = "" if top else "never started on this architecture"
        return Launch(
            file=file,
            line=line,
            kernel=" ".join(text_of(found[0][0]).split()).replace("< ", "<"),
            block=" ".join(text_of(block).split()),
            threads=top,
            why=f"{self.missing or text_of(block)} is not known" if top is None else why,
            compiled=max(apart or sizes, default=(None,))[0],
            agrees=not apart,
            bound=" ".join(text_of(kernel.bound).split()) if kernel else "",
            allowed=most(allowed) if allowed else None,
            slots=self._slots(kernel),
            quantized=quantized,
            ops=self.ops.of(user.name) if user else (),
        )

    def _started(self, call: Call, scope: Scope) -> Values:
        if not self.reachable(call.node, scope):
            return NEVER
        scopes = [scope] if scope.call else self.callers(call.inside)
        places = [(s.call, s.caller) for s in scopes]
        if places and not any(c and w and self.reachable(c, w) for c, w in places):
            return NEVER
        blocks = self._blocks(call, scope)
        return union(self.threads(*block) for block in blocks) if blocks else None

    def _used(self, function: Function) -> bool:
        """False when no choice that the host makes for this chip leads from an operation here."""
        if function not in self._reached:
            self._reached[function] = False  # while it is being looked for
            callers = [s.caller for s in self.callers(function) if s.caller]
            self._reached[function] = (
                not callers
                or self.ops.serves(function.name)
                or any(
                    c.function and c.place and self.reachable(c.place, c) and self._used(c.function)
                    for c in callers
                )
            )
        return self._reached[function]

    def _slots(self, kernel: Function | None) -> int | None:
        scope = Scope(kernel, kernel.file if kernel else "")
        values = [self.of(size, scope) for size in self.body(kernel).unguarded()]
        return max((most(size) for size in values if size), default=None)

    def _depends(self, call: Call, kernel: Node, scope: Scope) -> bool:
        """True when the callers choose the kernel, or the size that it is compiled for."""
        for origin, where in self.origins(kernel, scope):
            function = self._function(origin, where)
            if where is not scope or function is None:
                return True
            if any(map(_SIZE.search, function.template_names)):
                written = [(part, where) for part in arguments(called(origin)[1])]
                for part, place in (*self._blocks(call, scope), *written):
                    self.threads(part, place)
        return scope in self.general

    def _function(self, origin: Node, where: Scope) -> Function | None:
        found = [f for f in self.kernels.functions.get(called(origin)[0], []) if f.is_kernel]
        return next((f for f in found if f.file == where.file), found[0] if found else None)
