"""Kernels in AMDGPU assembly: bounds, registers, spills, LDS and dot instructions.

The numbers are in the metadata that the runtime reads too, `amdhsa.kernels` (LLVM, "User Guide for
AMDGPU Backend", code object V3 and later); the instructions are counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import KeyelabError

_LABEL = re.compile(r"^(\w+):|^\s+(v_dot)", re.MULTILINE)
_FIELD = re.compile(r"^  (?:- |  )\.(\w+): +(\S+)$", re.MULTILINE)
_NUMBERS = {
    "bound_threads": "max_flat_workgroup_size",
    "vgprs": "vgpr_count",
    "spilled_vgprs": "vgpr_spill_count",
    "spilled_sgprs": "sgpr_spill_count",
    "scratch_bytes": "private_segment_fixed_size",
    "lds_bytes": "group_segment_fixed_size",
}
_LITERAL = r"L(?:[a-z]|\d+[a-z_]+?)(n?\d+)E"  # L, type (a letter, or length and name), value, E


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel: the most threads a block may have, and what a thread needs."""

    name: str
    bound_threads: int
    vgprs: int
    spilled_vgprs: int
    spilled_sgprs: int
    scratch_bytes: int
    lds_bytes: int
    dots: int

    @property
    def base(self) -> str:
        """The name without template arguments."""
        return self.name.split("<")[0]


def parse(assembly: str) -> list[Kernel]:
    """The kernels of an AMDGPU assembly text, from its metadata, in their order."""
    code, _, metadata = assembly.partition(".amdgpu_metadata")
    dots: Counter[str] = Counter()
    function = ""
    for found in _LABEL.finditer(code):
        function = found.group(1) or function
        dots[function] += bool(found.group(2))
    listed = metadata.partition("amdhsa.kernels:\n")[2].partition("\namdhsa.")[0]
    entries = re.split(r"^  - ", listed, flags=re.MULTILINE)[1:]
    fields = [dict(_FIELD.findall(f"  - {entry}")) for entry in entries]
    try:
        numbers = [{name: int(one[key]) for name, key in _NUMBERS.items()} for one in fields]
        names = [one["name"] for one in fields]
    except KeyError as error:
        raise KeyelabError(
            f"expected the field .{error.args[0]} of each kernel in the assembly, found none",
            "compile with the ROCm code object version 3 or later",
        ) from None
    pairs = zip(names, numbers, strict=True)
    return [Kernel(name=_readable(one), dots=dots[one], **known) for one, known in pairs]


def _readable(symbol: str) -> str:
    """Name and literal template arguments of a mangled kernel: mul_mat_vec_q<12,1,0,0>."""
    head = re.match(r"_ZL?(\d+)", symbol)
    if not head:
        return symbol
    end = head.end() + int(head.group(1))
    literals = re.match(f"I(?:{_LITERAL})+", symbol[end:])
    values = re.findall(_LITERAL, literals.group()) if literals else []
    arguments = f"<{','.join(values).replace('n', '-')}>" if values else ""
    return symbol[head.end() : end] + arguments


def rows(file: str, kernels: Iterable[Kernel]) -> list[dict[str, str]]:
    """One row a kernel name: the bounds of its instances and the worst of the rest."""
    by_name: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.base].append(kernel)
    return [
        {
            "file": Path(file).name,
            "kernel": name,
            "instances": str(len(group)),
            "bound (threads)": " ".join(map(str, sorted({one.bound_threads for one in group}))),
            "most VGPRs": str(max(one.vgprs for one in group)),
            "most spilled VGPRs": str(max(one.spilled_vgprs for one in group)),
            "most spilled SGPRs": str(max(one.spilled_sgprs for one in group)),
            "most scratch (bytes)": str(max(one.scratch_bytes for one in group)),
            "most LDS (bytes)": str(max(one.lds_bytes for one in group)),
            "dot instructions": str(sum(one.dots for one in group)),
        }
        for name, group in by_name.items()
    ]
