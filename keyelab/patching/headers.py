"""Toolkit headers that stop the compiler: found, and corrected in a copy or where they are.

The copy is searched first and holds the whole folder hip/, since a quoted include is looked up
beside the file that includes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import located, sha256_file, sha256_tree, shown
from keyelab.params import HeaderFixes
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.plan import DoesNotFit, Plan, make_plan
from keyelab.patching.rule import Rule
from keyelab.patching.toolkit import correct_in_place
from keyelab.shell import run

FOLDER = "hip"
_PLACES = ("include", "hip/include", ".")


@dataclass(frozen=True)
class Corrected:
    """Corrected headers: the include folder that has them, one that has the originals, checks.

    `backup` is what to restore from when the toolkit itself was changed.
    """

    include: Path
    original: Path
    checks: list[Check]
    backup: Path | None = None


def plan_headers(
    headers_root: str, rules: Sequence[Rule], mode: str = "overlay"
) -> tuple[Plan | None, str]:
    """The plan for the folder hip/ of a toolkit, or None and the reason why there is none.

    Raises KeyelabError when the root is not there, DoesNotFit when a rule does not fit.
    """
    if mode == "none":
        return None, "the parameter mode is none, the toolkit's headers are used as they are"
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
            "set header_fixes.mode to none: with the rule softmax-no-cooperative-groups "
            "ggml does not include this header",
        ) from None
    return (plan, "") if plan.after else (None, f"the headers of {shown(root)} need no correction")


def originals(plan: Plan) -> dict[str, str]:
    """The SHA-256 of the headers that a plan corrects, by their path in an include folder."""
    return {f"{FOLDER}/{file}": sha256_file(plan.tree / file) for file in sorted(plan.after)}


def correct(plan: Plan, params: HeaderFixes, run_dir: Path) -> Corrected:
    """Correct the planned headers the way that `params.mode` says, and prove it.

    A copy goes to workdir/overlays/, the backup of headers changed in place to `run_dir`/headers.
    Raises KeyelabError when the toolkit may not or cannot be changed in place.
    """
    include, before = plan.tree.parent, sha256_tree(plan.tree)
    if params.mode == "overlay":
        applied = apply_plan(plan, located(params.workdir) / "overlays", FOLDER)
        return Corrected(applied.tree.parent, include, digest_checks(plan, applied, before))
    planned, root = plan.tree_sha256(), located(params.headers_root)
    backup = correct_in_place(plan, root, run_dir / "headers", params.accept_sha256)
    found = sha256_tree(plan.tree)
    kept = sha256_tree(
        plan.tree,
        replaced={file: (backup / FOLDER / file).read_bytes() for file in plan.after},
    )
    checks = [
        check(
            name,
            digest == expected,
            expected=expected[:16],
            found=digest[:16],
            remedy=f"keyelab headers restore {shown(run_dir)}",
        )
        for name, digest, expected in (
            ("toolkit holds the planned headers", found, planned),
            ("backup is byte-identical", kept, before),
        )
    ]
    return Corrected(include, backup, checks, backup)


def has_probe(plan: Plan) -> bool:
    """True for the specimen, beside which there is a program to try; a toolkit has none."""
    return _probe(plan).is_file()


def probe_check(plan: Plan, done: Corrected, compiler: str, log: Path) -> Check:
    """The specimen's probe must fail with the original include folder and compile with ours."""
    compiler = str(located(compiler)) if "/" in compiler else compiler
    before, after = (
        complaint([compiler], _probe(plan), folder, log) for folder in (done.original, done.include)
    )
    return check(
        "probe compiles with the corrected headers only",
        "__any" in before and not after,
        expected="redefinition of __any, then no error",
        found=f"{before or 'no error'}, then {after or 'no error'}",
        remedy="read the log of this phase",
    )


def _probe(plan: Plan) -> Path:
    return plan.tree.parent.parent / "probe.cpp"


def complaint(compiler: Sequence[str], source: Path, include: Path, log: Path | None = None) -> str:
    """The compiler's errors on `source` with `include` searched first; '' when none."""
    result = run(
        [*compiler, "-std=c++17", "-fsyntax-only", "-I", include, source],
        env={**os.environ, "LC_ALL": "C"},
        log=log,
        timeout_s=120,
        check=False,
    )
    errors = [line for line in result.output.splitlines() if "error: " in line]
    if result.returncode and not errors:
        return f"exit status {result.returncode}"
    said = "; ".join(line.split("error: ")[-1] for line in errors)
    return said if result.returncode else ""
