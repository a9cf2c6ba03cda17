"""One run at a time writes a run folder: a lock on the folder itself.

flock(2) on the folder needs no file, so none is left behind, and the operating system frees it with
the last process that has it: the run, and its notebook's kernel, which inherits it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import project_root, shown
from keyelab.record.run import new_run_folder, unwritten

_held: dict[Path, int] = {}


class Held(KeyelabError):
    """Another process writes the run folder."""


@contextlib.contextmanager
def held(folder: Path, wait_s: float = 0.2) -> Iterator[int]:
    """Hold a run folder; yields the descriptor, for a kernel to inherit.

    It may be held again inside the block. `wait_s` is how long another process may take to let it
    go. Raises Held, and KeyelabError where there is no such folder or it cannot be locked.
    """
    key = folder.resolve()
    if key in _held:
        yield _held[key]
        return
    descriptor = _take(folder, wait_s)
    _held[key] = descriptor
    try:
        yield descriptor
    finally:
        del _held[key]
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process holds the folder, this one included; False where it cannot be told."""
    if folder.resolve() in _held:
        return True
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(descriptor)
    return False


def holders(folder: Path) -> list[int]:
    """The other processes that have the folder open, as far as this user may see them."""
    name, found = str(folder.resolve()), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(one) == name for one in (process / "fd").iterdir()):  # noqa: PTH115
                found.append(int(process.name))
    return sorted(set(found) - {os.getpid()})


@contextlib.contextmanager
def fresh(target: str) -> Iterator[Path]:
    """Make and hold the folder of a new run; it goes again when no run.json was written.

    Raises KeyelabError when it cannot be made.
    """
    above = project_root() / "records" / target
    with contextlib.ExitStack() as stack:
        try:
            above.mkdir(parents=True, exist_ok=True)
            with held(above, wait_s=10):
                _sweep(above)
                folder = new_run_folder(target)
                stack.enter_context(held(folder))
        except OSError as error:
            raise unwritten(above, error) from None
        try:
            yield folder
        finally:
            if not (folder / "run.json").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _sweep(above: Path) -> None:
    """Remove folders of runs that were killed before they wrote anything."""
    for folder in above.glob("2*Z-*"):
        if not (folder / "run.json").exists() and not is_held(folder):
            for left in folder.glob(".run.json.*"):
                left.unlink()
            with contextlib.suppress(OSError):  # what else is in it is not ours
                folder.rmdir()


def _take(folder: Path, wait_s: float) -> int:
    descriptor = -1
    deadline = time.monotonic() + wait_s
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return descriptor
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise _refused(folder, error) from None


def _refused(folder: Path, error: OSError) -> KeyelabError:
    if isinstance(error, BlockingIOError):
        pids = " ".join(map(str, holders(folder)))
        return Held(
            f"expected {shown(folder)} to be free, found it in use by a run that goes on (pid "
            f"{pids or 'unknown'})",
            f"wait for its end{f', or end it: kill {pids}' if pids else ''}",
        )
    return KeyelabError(
        f"expected to lock {shown(folder)}, found: {error.strerror}",
        "keep records/ on a disk that is there and can lock: a local one, or NFS with its locks",
    )
