"""Does a translation unit compile with a given include folder first? The effect of an overlay."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.files import located
from keyelab.patching.overlay import HeaderPlan
from keyelab.shell import run


@dataclass(frozen=True)
class Compiled:
    """Whether it compiled, and the compiler's first complaint when it did not."""

    ok: bool
    complaint: str


def compiles(compiler: str, source: Path, include: Path, log: Path | None = None) -> Compiled:
    """Syntax-check `source` with `include` searched first; writes nothing."""
    result = run(
        [compiler, "-std=c++17", "-fsyntax-only", "-I", include, source],
        env={**os.environ, "LC_ALL": "C"},
        log=log,
        timeout_s=120,
        check=False,
    )
    errors = [line for line in result.output.splitlines() if "error" in line]
    complaint = errors[0].split("error: ")[-1].strip() if errors else ""
    return Compiled(result.returncode == 0, complaint)


def overlay_checks(
    compiler: str, probe: Path, wanted: HeaderPlan, include: Path, log: Path | None = None
) -> list[Check]:
    """The probe must fail with the original headers and compile with the overlay."""
    if wanted.include is None:
        raise ValueError("there are no original headers to compare with")
    compiler = str(located(compiler)) if "/" in compiler else compiler
    before = compiles(compiler, probe, wanted.include, log)
    after = compiles(compiler, probe, include, log)
    return [
        check(
            "probe fails with the original headers",
            not before.ok and "__any" in before.complaint,
            expected="redefinition of __any",
            found=before.complaint or "it compiles",
            remedy="the headers are already corrected: nothing to overlay",
        ),
        check(
            "probe compiles with the overlay",
            after.ok,
            expected="no error",
            found=after.complaint or "no error",
            remedy="read the log of this phase",
        ),
    ]
