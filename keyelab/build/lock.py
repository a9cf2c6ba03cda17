"""One writer for a build folder, also when an earlier one was orphaned."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from keyelab.errors import KeyelabError
from keyelab.files import shown


@contextlib.contextmanager
def held(
    path: Path, on_progress: Callable[[float | None, str], None], wait_s: float = 1800.0
) -> Iterator[int]:
    """Hold the lock file `path` and yield its descriptor, to be passed on with `pass_fds`.

    A child that inherits the descriptor keeps the lock when this process dies, so a compiler
    left behind by a killed kernel is waited for. Raises KeyelabError after `wait_s` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    deadline = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                who = ", ".join(holders(path)) or "another user's process"
                if time.monotonic() >= deadline:
                    raise KeyelabError(
                        f"expected the build folder {shown(path.parent)} to be free within "
                        f"{wait_s:g} s, it is still written by {who}",
                        "wait for it, or end it by its process id, and run the phase again",
                    ) from None
                on_progress(None, f"waiting: this build folder is written by {who}")
                time.sleep(min(1.0, max(0.05, deadline - time.monotonic())))
        yield descriptor
    finally:
        os.close(descriptor)


def holders(path: Path) -> list[str]:
    """Other processes of this user that have the lock file open, as 'name (pid N)'."""
    found = []
    for process in psutil.process_iter(["pid", "name"]):
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samefile(link, path):  # noqa: PTH121  (link names an open file)
                        found.append(f"{process.info['name']} (pid {process.pid})")
                        break
    return found
