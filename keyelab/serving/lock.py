"""Who may use a TCP port or a card: a lock that the server itself holds until it is gone.

The starter takes flock(2) on a file of this machine and hands the open file to the server, which
keeps it without knowing. The kernel frees it with the last process that has it, however that ends.
It holds between work folders and users. Containers have a /tmp each: KEYELAB_LOCKS names a folder
that they share.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError


class Taken(KeyelabError):
    """Another server holds the port or the card."""


def folder() -> Path:
    """Where the locks are; not below TMPDIR, for all users of the machine have to meet there."""
    return Path(os.environ.get("KEYELAB_LOCKS", "/tmp/keyelab-locks"))


def port(number: int) -> str:
    """The lock's name of a TCP port."""
    return f"port-{number}"


def card(place: str) -> str:
    """The lock's name of a card, by PCI address (or index where that is all there is)."""
    return f"card-{place.replace('/', '_')}"


@contextlib.contextmanager
def held(names: list[str], owner: dict[str, Any]) -> Iterator[list[int]]:
    """Hold locks while a server is started; yields their file descriptors, for the server.

    `owner` (pid, port, run, workdir) is told to those who come later; it may be filled in until
    the end of the block. Raises Taken.
    """
    taken: list[int] = []
    try:
        for name in sorted(names):  # one order for all, so that two cannot wait for each other
            taken.append(_take(name))
            _sign(taken[-1], owner)
        yield taken
        for descriptor in taken:
            _sign(descriptor, owner)
    finally:
        for descriptor in taken:
            os.close(descriptor)


def owner(name: str) -> dict[str, Any] | None:
    """What the holder of a lock said of itself ({}: nothing); None when nobody holds it."""
    try:
        descriptor = _open(name)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(descriptor)
    finally:
        os.close(descriptor)
    return None


def _locked(descriptor: int) -> bool:
    for _ in range(5):  # `owner` holds it for a moment, too
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def _take(name: str) -> int:
    try:
        descriptor = _open(name)
    except OSError as error:
        raise KeyelabError(
            f"expected to lock {name} in {folder()}, found: {error.strerror}",
            f"ls -ld {folder()}: every user needs to write there; remove it when no server runs",
        ) from None
    if not _locked(descriptor):
        said = _read(descriptor)
        os.close(descriptor)
        kind, _, which = name.partition("-")
        what = f"TCP port {which}" if kind == "port" else f"card {which}"
        mine = f" --workdir {said['workdir']}" if said.get("workdir", "work") != "work" else ""
        raise Taken(
            f"expected {what} to be free, found a server of keyelab on it: pid "
            f"{said.get('pid', 'unknown')}, port {said.get('port', 'unknown')}, run "
            f"{said.get('run', 'unknown')}",
            f"keyelab stop{mine} --port {said.get('port', which)}",
        ) from None
    return descriptor


def _open(name: str) -> int:
    if not folder().is_dir():
        folder().mkdir(exist_ok=True)
        folder().chmod(0o1777)
    path = folder() / name
    flags = os.O_RDWR | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)  # another user's: enough to lock
    except FileNotFoundError:
        # not O_CREAT at once: the kernel refuses that for another user's file in a sticky folder
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o666)
        return descriptor


def _sign(descriptor: int, owner: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # of another user, or the disk is full: the lock holds
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _read(descriptor: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(os.pread(descriptor, 4096, 0))
        return said if isinstance(said, dict) else {}
    return {}
