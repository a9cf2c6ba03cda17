"""A folder exchanged for its changed twin in one system call.

The twin is made of hard links to the files that stay and of new files for those that change; then
the two exchange their names (renameat2, RENAME_EXCHANGE). What is killed before that has changed
nothing, what is killed after it has changed everything.

New contents and the folders that name them are flushed to the disk before the exchange, and the
exchange before the old folder goes, so that a crash of the machine leaves one of the two as well;
that part follows from the documented behaviour of ext4, xfs and btrfs and is not tested here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def exchange_files(
    folder: Path, contents: Mapping[str, bytes], scratch: Path, problem: Callable[[], str]
) -> None:
    """Give files below `folder` (relative path) new contents, all at once.

    `scratch` is a name on the same file system, not yet taken. `problem` looks at the new folder
    and says what is wrong with it, or ''; then the old one is put back. Modes, owners, links and
    the times of unchanged files stay; a changed file gets the present time, so that a build sees
    it. Raises OSError where the file system cannot do it, KeyelabError for a problem and when
    somebody else changed the folder meanwhile.
    """
    before = _entries(folder)
    try:
        _twin(folder, scratch, contents)
        _exchange(folder, scratch)
        found = "this was interrupted"
        try:
            changed = "somebody else changed it meanwhile" if _entries(scratch) != before else ""
            found = changed or problem()
        finally:
            if found:
                _exchange(folder, scratch)
        if found:
            raise KeyelabError(f"{shown(folder)}: {found}; nothing was changed", "try again")
        flush(folder.parent)
        flush(scratch.parent)
    finally:
        remove(scratch)


def write_new(path: Path, content: bytes, like: Path | None = None) -> None:
    """Write a new file through to the disk, with mode and owner of `like`."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    if like:
        _take_after(path, like)
        os.utime(path)


def flush(folder: Path) -> None:
    """Write the names in a folder through to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, also from read-only folders; none is fine."""
    for parent, _, _ in os.walk(folder):
        if not os.access(parent, os.W_OK | os.X_OK):
            Path(parent).chmod(0o700)
    if folder.exists():
        shutil.rmtree(folder)


def _twin(old: Path, new: Path, contents: Mapping[str, bytes], below: str = "") -> None:
    new.mkdir()
    with os.scandir(old) as entries:
        for entry in entries:
            place, name = new / entry.name, f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                _twin(Path(entry.path), place, contents, f"{name}/")
            elif name in contents:
                write_new(place, contents[name], Path(entry.path))
            else:
                os.link(entry.path, place, follow_symlinks=False)
    _take_after(new, old)
    flush(new)


def _take_after(new: Path, old: Path) -> None:
    owner = old.stat()
    with contextlib.suppress(PermissionError):  # a file of somebody else becomes one's own
        os.chown(new, owner.st_uid, owner.st_gid)
    shutil.copystat(old, new)


def _entries(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What is in a folder, so that another's change shows: an editor renames, others write."""
    found = {path.relative_to(folder): path.lstat() for path in folder.rglob("*")}
    return {
        name: (one.st_ino, one.st_size, one.st_mtime_ns)
        for name, one in found.items()
        if not stat.S_ISDIR(one.st_mode)
    }


def _exchange(one: Path, other: Path) -> None:
    try:
        renameat2 = _libc.renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "the C library has no renameat2") from None
    names = (os.fsencode(one), os.fsencode(other))
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (exchange of two folders)")
