"""What keeps files from being changed where they are: found and named before anything is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from keyelab.errors import CommandFailed, KeyelabError, ProgramMissing
from keyelab.files import shown
from keyelab.shell import quoted, run


def require_patchable(tree: Path, files: Iterable[str], committed: bool = True) -> None:
    """Raise KeyelabError for links, missing write permission and, when `committed`, git edits.

    `files` are relative to the tree. Files that the recipe leaves alone may be modified.
    """
    names = sorted(files)
    if tree.is_symlink():
        raise KeyelabError(
            f"expected the tree itself, found a symbolic link at {shown(tree)}",
            f"name the folder that it leads to: {shown(tree.resolve())}",
        )
    inner = [Path(tree, *PurePosixPath(name).parts[:n]) for name in names for n in _depths(name)]
    link = next((path for path in inner if path.is_symlink()), None)
    if link:
        raise KeyelabError(
            f"expected plain files and folders, found a symbolic link at {shown(link)}",
            f"patch a copy that has none: cp -rL {shown(tree)} {shown(tree)}-patched",
        )
    for path in sorted({tree, *inner}):
        reason = unwritable(path)
        if reason:
            raise KeyelabError(
                f"expected to be able to change {shown(path)}, found that {reason}",
                "give yourself the right to write it, or patch a copy: "
                f"cp -r {shown(tree)} {shown(tree)}-patched",
            )
    modified = _modified(tree, names) if committed else []
    if modified:
        raise KeyelabError(
            f"expected {len(names)} files as git has them in {shown(tree)}, found modified: "
            f"{', '.join(modified)}",
            f"see what was done: {quoted(['git', '-C', shown(tree), 'diff', 'HEAD', *modified])}",
        )


def unwritable(path: Path) -> str:
    """Why a file or folder cannot be changed, or ''; root is also kept from read-only ones."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only"
    mode = path.stat().st_mode
    if not mode & 0o222:
        return f"it is read-only (mode {stat.S_IMODE(mode):04o})"
    return "" if os.access(path, os.W_OK, effective_ids=True) else "this user may not write it"


def _depths(name: str) -> range:
    return range(1, len(PurePosixPath(name).parts) + 1)


def _modified(tree: Path, names: list[str]) -> list[str]:
    """The files that git knows otherwise; none where there is no git or no git tree."""
    safely = ("-c", "core.fsmonitor=false", "-c", "safe.directory=*", "--no-optional-locks")
    words = ("diff", "--name-only", "--relative", "-z", "HEAD", "--", *names)
    try:
        found = run(["git", *safely, "-C", tree, *words], timeout_s=120).output
    except (CommandFailed, ProgramMissing):
        return []
    return [name for name in found.split("\0") if name]
