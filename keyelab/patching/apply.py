"""Applying a plan and taking it back: a patched copy named by its digest, proven by it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from keyelab import partial
from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import sha256_tree, shown
from keyelab.patching.plan import Plan


@dataclass(frozen=True)
class Applied:
    """The patched tree and its measured digest; `already` when there was nothing to do."""

    tree: Path
    sha256: str
    already: bool


def apply_plan(plan: Plan, store: Path, inner: str = "") -> Applied:
    """Make the patched copy of the plan's tree: store/<digest12>/<inner>.

    The tree itself is never written; the copy appears whole or not at all. Raises DoesNotFit when
    a rule does not fit, KeyelabError when the copy's digest is not the planned one.
    """
    expected = plan.require().tree_sha256()
    home = store / expected[:12]
    tree = home / inner
    partial.remove_left(store)
    if home.exists():
        hint = f"keep your edits elsewhere, then: rm -r {shown(home)}"
        return Applied(tree, require_digest(tree, expected, hint), already=True)
    with partial.folder(store) as part:
        copy = part / "home" / inner
        shutil.copytree(plan.tree, copy, symlinks=True)
        for file, content in plan.after.items():
            _write(copy / file, content)
        hint = f"{shown(plan.tree)} changed meanwhile: run this phase again"
        found = require_digest(copy, expected, hint)
        try:
            (part / "home").rename(home)
        except OSError:  # another run was faster
            if not home.exists():
                raise
            require_digest(tree, expected, f"keep your edits elsewhere, then: rm -r {shown(home)}")
    return Applied(tree, found, already=False)


def digest_checks(plan: Plan, applied: Applied, base_sha256: str) -> list[Check]:
    """The copy is the planned one, the original is untouched, and the way back is exact.

    The way back is the pristine content of the changed files, put into what the copy holds now.
    """
    pristine = {file: (plan.tree / file).read_bytes() for file in plan.after}
    back = sha256_tree(applied.tree, replaced=pristine)
    return [
        check(
            name,
            found == expected,
            expected=expected[:16],
            found=found[:16],
            remedy=f"something else edits {shown(plan.tree.parent)}: run this phase again",
        )
        for name, found, expected in (
            ("patched copy is the planned one", applied.sha256, plan.tree_sha256()),
            ("original is untouched", sha256_tree(plan.tree), base_sha256),
            ("revert is byte-identical", back, base_sha256),
        )
    ]


def require_digest(tree: Path, expected: str, hint: str) -> str:
    """The digest of `tree`, which has to be `expected`."""
    found = sha256_tree(tree)
    if found != expected:
        raise KeyelabError(
            f"expected tree {expected[:12]} in {shown(tree)}, found {found[:12]}: it was edited",
            hint,
        )
    return found


def _write(path: Path, content: bytes) -> None:
    path.chmod(path.stat().st_mode | 0o200)
    path.write_bytes(content)
