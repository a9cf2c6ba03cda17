"""Applying a plan and taking it back: a patched copy beside the pristine tree, proven by digest."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import sha256_tree, shown
from keyelab.patching.plan import Plan


@dataclass(frozen=True)
class Applied:
    """The patched tree and its measured digest; `already` when there was nothing to do."""

    tree: Path
    sha256: str
    already: bool


def patched_folder(plan: Plan, recipe: str, base_sha256: str) -> Path:
    """Where the patched copy stands: <base12>-<recipe>-<plan12> beside the pristine tree."""
    if not plan.after:
        return plan.tree
    return plan.tree.parent / f"{base_sha256[:12]}-{recipe}-{plan.digest[:12]}"


def apply_plan(plan: Plan, recipe: str, base_sha256: str) -> Applied:
    """Make the patched copy of the plan's tree; the tree itself is never written.

    The copy appears whole, under its name, or not at all. Raises DoesNotFit when a rule does not
    fit, KeyelabError when the copy's digest is not the planned one.
    """
    plan.require()
    target = patched_folder(plan, recipe, base_sha256)
    expected = plan.tree_sha256()
    if not plan.after or target.exists():
        found = sha256_tree(target)
        if found != expected:
            raise KeyelabError(
                f"expected tree {expected[:12]} in {shown(target)}, found {found[:12]}: "
                "it was edited after it was made",
                f"keep your edits elsewhere, then: rm -r {shown(target)}",
            )
        return Applied(target, found, already=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent))
    try:
        shutil.copytree(plan.tree, partial / "tree", symlinks=True)
        for file, content in plan.after.items():
            _write(partial / "tree" / file, content)
        found = sha256_tree(partial / "tree")
        if found != expected:
            raise KeyelabError(
                f"expected tree {expected[:12]} after patching, found {found[:12]}: "
                f"{shown(plan.tree)} changed meanwhile",
                "run this phase again",
            )
        (partial / "tree").rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Applied(target, found, already=False)


def revert(tree: Path, base: Path, files: Iterable[str]) -> str:
    """Put the pristine `files` of `base` back into `tree` and return the tree's digest.

    Raises KeyelabError when the result is not byte-identical with `base`.
    """
    for file in files:
        _write(tree / file, (base / file).read_bytes())
    found, expected = sha256_tree(tree), sha256_tree(base)
    if found != expected:
        raise KeyelabError(
            f"expected tree {expected[:12]} after the revert of {shown(tree)}, found {found[:12]}: "
            "other files were edited too",
            f"diff -r {shown(base)} {shown(tree)}",
        )
    return found


def reverted_copy(tree: Path, base: Path, files: Iterable[str]) -> str:
    """Revert a scratch copy of `tree`, remove the copy and return the digest it reached."""
    scratch = Path(tempfile.mkdtemp(prefix=".revert-", dir=tree.parent))
    try:
        shutil.copytree(tree, scratch / "tree", symlinks=True)
        return revert(scratch / "tree", base, files)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    path.chmod(path.stat().st_mode | 0o200)
    path.write_bytes(content)
