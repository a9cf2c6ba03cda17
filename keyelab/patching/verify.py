"""What must hold in a patched tree: no launch above the limit, no kernel that disagrees with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.patching.rule import Rule

KERNELS = "ggml/src/ggml-cuda"
_TEMPLATE = re.compile(r"template\s*<([^<>]*)>\s*static\s+__global__\s+void\s+(\w+)\s*\(")
_BLOCK = re.compile(r"\bdim3\s+block_dims?\s*\(([\w\s,]+)\)")
_START = re.compile(r"\b(\w+)\s*<([^<>;]*)>\s*(?:<<<|,)")
_END = re.compile(r"\bdim3\s+block_dim|^\}", re.MULTILINE)  # the next block, or the function's end


@dataclass(frozen=True)
class Launch:
    """A launch with a constant block: threads started, and the size the kernel is compiled for."""

    file: str
    line: int
    kernel: str
    threads: int
    compiled: int | None

    def __str__(self) -> str:
        wants = f", compiled for {self.compiled}" if self.compiled else ""
        return f"{self.file}:{self.line} {self.kernel} starts {self.threads}{wants}"


def verify(tree: Path, rules: Sequence[Rule], block_limit: int) -> list[Check]:
    """The checks of a patched tree: limit, agreement, and each rule's own post-conditions.

    Covers every launch whose block size is written as a constant; sizes that are computed at
    run time are covered by the post-conditions of their rule.
    """
    found = launches(tree)
    above = [launch for launch in found if launch.threads > block_limit]
    apart = [launch for launch in found if launch.compiled not in (None, launch.threads)]
    return [
        check(
            f"launches of at most {block_limit} threads",
            not above if found else None,
            expected=f"no constant block above {block_limit}",
            found="; ".join(map(str, above)) or f"{len(found)} launches, none above",
            remedy="the recipe misses these launches: choose another, or report the tree",
        ),
        check(
            "kernels agree with their launches",
            not apart if found else None,
            expected="the block size a kernel is compiled for is the one started",
            found="; ".join(map(str, apart)) or "no disagreement",
            remedy="such a kernel skips columns and sums unwritten slots: change both together",
        ),
        *post_conditions(tree, rules),
    ]


def launches(tree: Path) -> list[Launch]:
    """Every launch in the CUDA/HIP kernels whose block has a constant size, by file and line."""
    return [
        launch
        for path in sorted((tree / KERNELS).glob("*.cu"))
        for launch in _launches(path.name, path.read_text(encoding="utf-8", errors="replace"))
    ]


def _launches(file: str, text: str) -> Iterator[Launch]:
    sizes = {}  # where among its template arguments a kernel has its block size
    for template in _TEMPLATE.finditer(text):
        names = [part.split("=")[0].split()[-1] for part in template.group(1).split(",")]
        if "block_size" in names:
            sizes[template.group(2)] = names.index("block_size")
    for block in _BLOCK.finditer(text):
        sides = [_constant(side) for side in block.group(1).split(",")]
        if None in sides:
            continue
        line = text.count("\n", 0, block.start()) + 1
        end = _END.search(text, block.end())
        start = _START.search(text, block.end(), end.start() if end else len(text))
        kernel, arguments = (
            (start.group(1), start.group(2).split(",")) if start else ("a kernel", [])
        )
        place = sizes.get(kernel, len(arguments))
        compiled = _constant(arguments[place]) if place < len(arguments) else None
        yield Launch(file, line, kernel, prod(side for side in sides if side), compiled)


def _constant(word: str) -> int | None:
    word = word.strip().replace("WARP_SIZE", "32")
    return int(word) if word.isdigit() else None


def post_conditions(tree: Path, rules: Iterable[Rule]) -> Iterator[Check]:
    """The post-conditions of the rules, each looked up in its file."""
    for rule in rules:
        for condition in rule.after:
            path = tree / condition.file
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            found = "holds" if text else "no such file"
            hit = re.search(condition.absent, text, re.MULTILINE)
            if hit:
                line = text.count("\n", 0, hit.start()) + 1
                found = f"{path.name}:{line} {' '.join(hit.group().split())}"
            yield check(
                f"{rule.id}: {condition.name}",
                hit is None if text else None,
                expected="holds",
                found=found,
                remedy=f"apply the rule {rule.id}: {rule.title}",
            )
