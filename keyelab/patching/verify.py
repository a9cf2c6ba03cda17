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
_WARP = 32


@dataclass(frozen=True)
class Launch:
    """A launch with a constant block: threads started, and the size the kernel is compiled for."""

    file: str
    line: int
    kernel: str
    threads: int
    compiled: int | None

    def __str__(self) -> str:
        wants = "" if self.compiled is None else f", compiled for {self.compiled}"
        return f"{Path(self.file).name}:{self.line} {self.kernel} starts {self.threads}{wants}"


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
            found=_listed(above) if above else f"{len(found)} launches, none above",
            remedy="the recipe misses these launches: choose another, or report the tree",
        ),
        check(
            "kernels agree with their launches",
            not apart if found else None,
            expected="the block size a kernel is compiled for is the one started",
            found=_listed(apart) if apart else "no disagreement",
            remedy="such a kernel skips columns and sums unwritten slots: change both together",
        ),
        *post_conditions(tree, rules),
    ]


def launches(tree: Path) -> list[Launch]:
    """Every launch in the CUDA/HIP kernels whose block has a constant size, by file and line."""
    found: list[Launch] = []
    for path in sorted((tree / KERNELS).glob("*.cu")):
        text = path.read_text(encoding="utf-8", errors="replace")
        kernels = dict(_block_templates(text))
        for match in _BLOCK.finditer(text):
            sides = [_constant(word) for word in match.group(1).split(",")]
            if None in sides:
                continue
            threads = prod(side for side in sides if side)
            rest = text[match.end() : _scope_end(text, match.end())]
            line = text.count("\n", 0, match.start()) + 1
            started = re.search(r"\b(\w+)\s*<([^<>;]*)>\s*(?:<<<|,)", rest)
            kernel = started.group(1) if started else "a kernel"
            compiled = None
            if started and kernel in kernels:
                compiled = _size(started.group(2).split(","), kernels[kernel])
            found.append(Launch(path.relative_to(tree).as_posix(), line, kernel, threads, compiled))
    return found


def _block_templates(text: str) -> Iterator[tuple[str, int]]:
    """(kernel, index of its block_size parameter) for the kernels that have one."""
    for match in _TEMPLATE.finditer(text):
        names = [part.split("=")[0].split()[-1] for part in match.group(1).split(",")]
        if "block_size" in names:
            yield match.group(2), names.index("block_size")


def _scope_end(text: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth < 0:
            return match.start()
    return len(text)


def _size(arguments: Sequence[str], index: int) -> int | None:
    return _constant(arguments[index]) if index < len(arguments) else None


def _constant(word: str) -> int | None:
    word = word.strip()
    return _WARP if word == "WARP_SIZE" else int(word) if word.isdigit() else None


def post_conditions(tree: Path, rules: Iterable[Rule]) -> Iterator[Check]:
    """The post-conditions of the rules, each looked up in its file."""
    for rule in rules:
        for condition in rule.after:
            path = tree / condition.file
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            hit = re.search(condition.absent, text, re.MULTILINE)
            line = text.count("\n", 0, hit.start()) + 1 if hit else 0
            yield check(
                f"{rule.id}: {condition.name}",
                hit is None if text else None,
                expected="holds",
                found=f"{path.name}:{line} {' '.join(hit.group().split())}" if hit else "holds",
                remedy=f"apply the rule {rule.id}: {rule.title}",
            )


def _listed(launched: Sequence[Launch]) -> str:
    more = f" and {len(launched) - 4} more" if len(launched) > 4 else ""
    return "; ".join(str(launch) for launch in launched[:4]) + more
