"""Whether a tree's host and device code mean the same chip, kernel family by kernel family.

The host reads the name of a chip as a number and asks its ranges; the device's code is chosen by
macros that list names. Both are read out of the tree, so nothing here knows a release: what
cannot be read is unknown. Derived from source; no compiler runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.patching.cuda.kernels import HIP, KERNELS, chip
from keyelab.patching.cuda.syntax import Unreadable
from keyelab.patching.predicates import Code
from keyelab.patching.recipe import Recipe
from keyelab.patching.sides import FAMILIES, Sides

_FLOATS = {"F32", "F16", "BF16"}
_SWITCH = re.compile(r"if \((NOT )?(\w+)\)\s*add_compile_definitions\((\w+)\)")
# the steps by which the host makes a number of a name, as `chip` takes them
_PARSE_ID = (
    "strtoul(&archName[archLen - 2], 0, 16)",
    "strtoul(archName, 0, 16)",
    "archNum += archMajor * 0x100;",
    "archNum += archMinor;",
    ".cc = ggml_cuda_parse_id(prop.gcnArchName);",
)


@dataclass(frozen=True)
class Family:
    """One family of kernels: both sides in words; `agrees` is None when one cannot be read."""

    name: str
    host: str
    device: str
    agrees: bool | None
    why: str


def families(tree: Path, arch: str, definitions: Sequence[str] = ()) -> list[Family]:
    """Each kernel family of a tree for a chip such as `gfx928`, with whether both sides agree.

    `definitions` are what the build gives the compiler on both sides (NAME or NAME=VALUE).
    """
    found: list[Family] = []
    read: dict[str, Sides] = {}
    for name, (file, judge) in FAMILIES.items():
        try:
            common = read.get("common") or _sides(tree / KERNELS, arch, definitions)
            read["common"] = common
            read[file] = read.get(file) or common.including(file)
            host, device, why = judge(read[file])
            found.append(Family(name, host, device, not why, why))
        except Unreadable as error:
            found.append(Family(name, "", "", None, f"not read: {file}: {error}"))
    return found


def agreement_checks(
    tree: Path, arch: str, definitions: Sequence[str] = (), unused: Collection[str] = ()
) -> list[Check]:
    """One check for each family, without those that are `unused` in a deployment."""
    return [
        check(
            f"{family.name}: host and device agree about {arch}",
            family.agrees,
            expected=f"the host's choice: {family.host}" if family.host else "both sides read",
            found="; ".join(filter(None, [family.device, family.why])),
            remedy="register the chip on both sides (recipe gcn), or do without these kernels",
        )
        for family in families(tree, arch, definitions)
        if family.name not in unused
    ]


def unused_by(recipe: Recipe) -> set[str]:
    """The families that a deployment with this recipe does not start."""
    quantized = set() if set(recipe.weights) - _FLOATS else {"mmq", "mmvq", "mmvq_moe"}
    return quantized | ({"flash attention"} if recipe.flash_attention == "off" else set())


def build_definitions(tree: Path, cmake: Mapping[str, str]) -> list[str]:
    """What the tree's HIP build gives the compiler for these CMake cache entries."""
    text = (tree / "ggml/src/ggml-hip/CMakeLists.txt").read_text(encoding="utf-8")
    off = ("OFF", "0", "NO", "FALSE", "N", "")
    return [
        definition
        for negated, option, definition in _SWITCH.findall(text)
        if option in cmake and (cmake[option].upper() in off) == bool(negated)
    ]


def _sides(folder: Path, arch: str, definitions: Sequence[str]) -> Sides:
    number, lanes, named = chip(arch)
    both = [*HIP, "GGML_MAX_DIMS=4", *definitions]  # that one is of ggml.h, which is not read
    only = [*named, "__AMDGCN__", "__HIP_DEVICE_COMPILE__"]
    host = Code(folder, both, device=False).including("common.cuh")
    device = Code(folder, [*both, *only], device=True).including("common.cuh")
    source = folder / "ggml-cuda.cu"
    text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
    for step in _PARSE_ID:
        if step not in text:
            raise Unreadable(f"{source.name} has no {step}")
    return Sides(host, device, host.evaluate("GGML_CUDA_CC_OFFSET_AMD") + number, lanes)
