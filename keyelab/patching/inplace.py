"""A recipe applied to a person's own tree, in place: whole or not at all, with the way back."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from keyelab.errors import KeyelabError
from keyelab.files import STATE, sha256_tree, shown
from keyelab.patching.exchange import exchange_files
from keyelab.patching.obstacle import require_patchable
from keyelab.patching.plan import Plan, make_plan
from keyelab.patching.state import Patch, Status, digest, originals, save, status, sweep


@dataclass(frozen=True)
class Result:
    """What apply or revert did: the digest of the tree now, and `already` for nothing to do.

    `base_sha256` is the digest of the tree without the recipe, None where that is not known.
    """

    recipe: str
    already: bool
    base_sha256: str | None
    tree_sha256: str
    files: tuple[str, ...] = ()


def apply(plan: Plan, recipe: str) -> Result:
    """Apply a plan to its tree in place.

    Raises DoesNotFit when a rule does not fit, KeyelabError when something is in the way (see
    obstacle.py), another recipe is applied or the file system cannot do it: before the tree has
    changed.
    """
    tree = plan.require().tree
    with _alone(tree) as now:
        now.require_unedited(tree)
        if not plan.after:
            base = now.patch.base_sha256 if now.kind == "patched" and now.patch else None
            return Result(recipe, True, base, sha256_tree(tree))
        if now.kind == "patched" and now.patch:
            raise KeyelabError(
                f"expected {shown(tree)} without a recipe, found {now.patch.recipe} applied in "
                f"place, of which {recipe} would change {len(plan.after)} files",
                f"keyelab patch revert {shown(tree)}",
            )
        require_patchable(tree, plan.after)
        if make_plan(tree, [outcome.rule for outcome in plan.outcomes]).after != plan.after:
            raise KeyelabError(f"{shown(tree)} was edited since it was planned", "try again")
        before = {file: (tree / file).read_bytes() for file in plan.after}
        files = {
            file: {"before": _sha256(before[file]), "after": _sha256(new)}
            for file, new in plan.after.items()
        }
        patch = Patch(recipe, sha256_tree(tree), plan.tree_sha256(), files)
        save(tree, patch, before, plan.after)
        _replace(tree, plan.after, patch.tree_sha256)
        return Result(recipe, False, patch.base_sha256, patch.tree_sha256, tuple(files))


def revert(tree: Path) -> Result:
    """Put the originals back, byte for byte; files that the recipe left alone stay as they are.

    Raises KeyelabError when a file that the recipe changed has been edited since.
    """
    with _alone(tree) as now:
        now.require_unedited(tree)
        if now.kind != "patched" or now.patch is None:
            return Result("", True, None, sha256_tree(tree))
        before = originals(tree, now.patch)
        require_patchable(tree, before, committed=False)
        _replace(tree, before)
        base = now.patch.base_sha256
        return Result(now.patch.recipe, False, base, sha256_tree(tree), tuple(before))


def common_folder(files: Collection[str]) -> str:
    """The lowest folder that holds all files, relative to the tree.

    Raises KeyelabError when that is the tree itself, which cannot be exchanged from inside.
    """
    folder = os.path.commonpath([PurePosixPath(file).parent for file in files])
    if folder in ("", "."):
        raise KeyelabError(
            f"expected files below one folder of the tree, found {', '.join(files)}",
            "patch a copy with notebooks/04_source_patch",
        )
    return folder


def _replace(tree: Path, contents: Mapping[str, bytes], expected: str = "") -> None:
    def problem() -> str:
        wrong = [file for file, new in contents.items() if digest(tree / file) != _sha256(new)]
        if wrong:
            return f"{', '.join(wrong)} did not get the planned content"
        moved = expected and sha256_tree(tree) != expected
        return "other files of the tree changed meanwhile (is a build running?)" if moved else ""

    folder = common_folder(contents)
    inside = {str(PurePosixPath(file).relative_to(folder)): new for file, new in contents.items()}
    exchange_files(tree / folder, inside, tree / STATE / "next", problem)


@contextmanager
def _alone(tree: Path) -> Iterator[Status]:
    """The status of the tree, swept before and after, while no other keyelab changes it.

    The lock goes with the process, however that ends.
    """
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor)
        try:
            yield sweep(tree)
        finally:
            sweep(tree)
    except BlockingIOError:
        raise KeyelabError(
            f"expected {shown(tree)} for this command alone, found another keyelab patch at work",
            "wait until that one has ended",
        ) from None
    except OSError as error:
        raise KeyelabError(
            f"{shown(tree)} cannot be changed in place: {error.strerror or error}; the tree is "
            f"{status(tree).kind}",
            f"patch a copy: cp -r {shown(tree)} {shown(tree)}-patched, "
            "or notebooks/04_source_patch with the parameter source_path",
        ) from None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience_s: float = 1.0) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # a program that a killed run was starting holds it for another moment
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
