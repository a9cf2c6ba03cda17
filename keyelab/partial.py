"""Folders that become something when they are whole; what a killed process left of one goes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def folder(store: Path, prefix: str = ".partial-") -> Iterator[Path]:
    """A temporary folder in `store`, held with flock(2) so that nobody takes it for a left one.

    Those of killed processes are removed first.
    """
    store.mkdir(parents=True, exist_ok=True)
    remove_left(store, prefix)
    with contextlib.ExitStack() as stack:
        descriptor = None
        while descriptor is None:  # another's remove_left may have had it before the lock
            made = tempfile.TemporaryDirectory(prefix=prefix, dir=store, ignore_cleanup_errors=True)
            name = Path(stack.enter_context(made))
            descriptor = _lock(name)
        stack.callback(os.close, descriptor)
        yield name


def remove_left(store: Path, prefix: str = ".partial-") -> None:
    """Remove the temporary folders in `store` whose process is gone."""
    for left in store.glob(f"{prefix}*"):
        descriptor = _lock(left)
        if descriptor is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """The folder's descriptor, locked; None when it is gone or another process has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
