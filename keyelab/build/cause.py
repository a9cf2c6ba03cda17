"""The first cause of a failed build, found in what CMake, ninja, make and compilers print."""

from __future__ import annotations

import re
from dataclasses import dataclass

CONTEXT_LINES = 2


@dataclass(frozen=True)
class Cause:
    """Why a build failed: the line that says so, its number (from 1), its context, a remedy."""

    kind: str
    line: str
    line_number: int
    context: str
    remedy: str
    target: str = ""


_LOG = "read the whole log"
# The order matters: a compiler that was killed also prints 'error:'.
_SIGNS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "out of memory",
        re.compile(r"\bKilled\b|out of memory allocating|virtual memory exhausted|std::bad_alloc"),
        "a compiler was killed, most likely for lack of memory: build with fewer jobs, "
        "--set build.jobs=1",
    ),
    (
        "disk full",
        re.compile(r"No space left on device"),
        "free space below workdir, then run the phase again: df -h .",
    ),
    (
        "wrong GPU target",
        re.compile(r"cannot find ROCm device library for (gfx\w+)"),
        "the toolkit does not know this architecture: set build.gpu_targets to the one that "
        "rocm_agent_enumerator prints (K100_AI: gfx928)",
    ),
    (
        "HIP too old",
        re.compile(r"At least ROCM/HIP V[\d.]+ is required"),
        "choose the recipe k100ai in source_patch, which lifts this gate for DTK",
    ),
    ("link error", re.compile(r"undefined reference to|ld returned \d+ exit|cannot find -l"), _LOG),
    ("configure error", re.compile(r"^CMake Error|CMAKE_\w+_COMPILER.* not (?:set|found)"), _LOG),
    ("build system error", re.compile(r"^ninja: (?:error|fatal):"), _LOG),
    ("compile error", re.compile(r"(?:^|[\s:])(?:fatal )?error\s?:|^Error: "), _LOG),
    ("failed command", re.compile(r"^FAILED: |^g?make(?:\[\d+\])?: \*\*\* .*Error \d+"), _LOG),
)


def first(log: str) -> Cause | None:
    """The earliest line that is a cause, or None when no line is one.

    Inside a ninja FAILED record the record's own output counts before its first line.
    """
    lines = log.splitlines()
    fallback: Cause | None = None
    target = ""
    for index, line in enumerate(lines):
        if line.startswith("FAILED: "):
            target = re.sub(r"^FAILED: (?:\[code=\d+\] )?", "", line).strip()
        message = _message(lines, index)
        kind = _kind(message)
        if kind is None:
            continue
        cause = _cause(kind, message, lines, index, target)
        if kind[0] != "failed command":
            return cause
        fallback = fallback or cause
    return fallback


def unused_options(log: str) -> list[str]:
    """Names in CMake's warning that variables were given and not used, in its order."""
    names: list[str] = []
    lines = iter(log.splitlines())
    for line in lines:
        if "Manually-specified variables were not used by the project" not in line:
            continue
        for following in lines:
            if following.strip() and not following.startswith("    "):
                break
            if following.strip():
                names.append(following.strip())
    return names


def _message(lines: list[str], at: int) -> str:
    """A line, or for CMake the indented text below it as well: there the reason stands."""
    if not lines[at].startswith("CMake Error"):
        return lines[at].strip()
    below = []
    for line in lines[at + 1 : at + 8]:
        if line.strip() and not line.startswith("  "):
            break
        below.append(line.strip())
    return " ".join(part for part in (lines[at].strip(), *below) if part)


def _kind(message: str) -> tuple[str, re.Pattern[str], str] | None:
    return next((sign for sign in _SIGNS if sign[1].search(message)), None)


def _cause(
    sign: tuple[str, re.Pattern[str], str], message: str, lines: list[str], at: int, target: str
) -> Cause:
    nearby = lines[max(0, at - CONTEXT_LINES) : at + CONTEXT_LINES + 1]
    context = "\n".join(text[:300] for text in nearby)
    return Cause(sign[0], message[:400], at + 1, context, sign[2], target)
