"""Toolkit headers that stop the compiler: found, and corrected in a copy that is searched first.

The toolkit is only read. The copy holds the whole folder hip/, since a quoted include is looked
up beside the file that includes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import located, shown
from keyelab.patching.plan import DoesNotFit, Plan, make_plan
from keyelab.patching.rule import Rule
from keyelab.shell import run

FOLDER = "hip"
_PLACES = ("include", "hip/include", ".")


def plan_headers(headers_root: str, rules: Sequence[Rule]) -> tuple[Plan | None, str]:
    """The plan for the folder hip/ of a toolkit, or None and the reason why there is none.

    Raises KeyelabError when the root is not there, DoesNotFit when a rule does not fit.
    """
    if not headers_root:
        return None, "no toolkit headers on this target"
    root = located(headers_root)
    if not root.is_dir():
        raise KeyelabError(
            f"expected a toolkit folder at {shown(root)}, found none",
            "set header_fixes.headers_root to the toolkit's root, or to '' where there is none",
        )
    first = rules[0].applies_to[0]
    folders = [root / place / FOLDER for place in _PLACES]
    folder = next((folder for folder in folders if (folder / first).is_file()), None)
    if folder is None:
        return None, f"{shown(root)} has no {FOLDER}/{first}"
    try:
        plan = make_plan(folder, rules).require()
    except DoesNotFit as error:
        raise DoesNotFit(
            error.message,
            "set header_fixes.headers_root to '': with the rule softmax-no-cooperative-groups "
            "ggml does not include this header",
        ) from None
    return (plan, "") if plan.after else (None, f"the headers of {shown(root)} need no correction")


def has_probe(folder: Path) -> bool:
    """True for the specimen, beside which there is a program to try; a toolkit has none."""
    return (folder.parent.parent / "probe.cpp").is_file()


def probe_check(original: Path, include: Path, compiler: str, log: Path) -> Check:
    """The specimen's probe must fail with the original include folder and compile with ours."""
    probe = original.parent / "probe.cpp"
    compiler = str(located(compiler)) if "/" in compiler else compiler
    before, after = (complaint(compiler, probe, folder, log) for folder in (original, include))
    return check(
        "probe compiles with the corrected headers only",
        "__any" in before and not after,
        expected="redefinition of __any, then no error",
        found=f"{before or 'no error'}, then {after or 'no error'}",
        remedy="read the log of this phase",
    )


def complaint(compiler: str, source: Path, include: Path, log: Path | None = None) -> str:
    """The compiler's first error on `source` with `include` searched first; '' when none."""
    result = run(
        [compiler, "-std=c++17", "-fsyntax-only", "-I", include, source],
        env={**os.environ, "LC_ALL": "C"},
        log=log,
        timeout_s=120,
        check=False,
    )
    errors = [line for line in result.output.splitlines() if "error: " in line]
    if result.returncode and not errors:
        return f"exit status {result.returncode}"
    return errors[0].split("error: ")[-1] if result.returncode else ""
