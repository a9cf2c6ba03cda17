"""The first cause of a failed build, found in what CMake, ninja and compilers print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

_ERROR = re.compile(
    r"^CMake Error|^ninja: (?:error|fatal):|(?:^|[\s:])(?:fatal )?error\s?:"
    r"|undefined reference to|cannot find -l|No space left on device"
    r"|\bKilled\b|out of memory allocating|virtual memory exhausted|std::bad_alloc"
)
_REMEDIES = (
    (
        r"Killed|out of memory|virtual memory exhausted|bad_alloc",
        "a compiler was killed, most likely for lack of memory: build with fewer jobs, "
        "--set build.jobs=1",
    ),
    (
        r"No space left on device",
        "free space below workdir, then run the phase again: df -h .",
    ),
    (
        r"cannot find ROCm device library for gfx",
        "the toolkit does not know this architecture: set build.gpu_targets to the one that "
        "rocm_agent_enumerator prints (K100_AI: gfx928)",
    ),
    (
        r"At least ROCM/HIP V[\d.]+ is required",
        "choose the recipe k100ai in source_patch, which lifts this gate for DTK",
    ),
)


@dataclass(frozen=True)
class Cause:
    """Why a build failed: the line that says so, its number (from 1), its context, a remedy.

    `remedy` is '' where none is known.
    """

    line: str
    number: int
    context: str
    remedy: str


def first(log: str) -> Cause | None:
    """The earliest line that is a cause, else the first failed command; None without either."""
    lines = log.splitlines()
    found = [at for at, line in enumerate(lines) if _ERROR.search(line)]
    found += [at for at, line in enumerate(lines) if line.startswith("FAILED: ")]
    if not found:
        return None
    at = found[0]
    message = lines[at].strip()
    if message.startswith("CMake Error"):  # the reason stands in the indented text below
        below = takewhile(lambda line: line.startswith("  ") or not line, lines[at + 1 : at + 8])
        message = " ".join([message, *" ".join(below).split()])
    remedy = next((text for sign, text in _REMEDIES if re.search(sign, message)), "")
    context = "\n".join(line[:300] for line in lines[max(0, at - 2) : at + 3])
    return Cause(message[:400], at + 1, context, remedy)


def unused_options(log: str) -> list[str]:
    """Names in CMake's warning that variables were given and not used, in its order."""
    found = re.findall(r"variables were not used by the project:\n\n((?:    .+\n)+)", log)
    return " ".join(found).split()
