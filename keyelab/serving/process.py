"""The server's process: started so that it outlives this one, stopped until nothing is left."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import lock, memory, state
from keyelab.serving.port import is_free, listeners
from keyelab.serving.state import ServerState

# SIGINT first: on it llama-server ends by itself and mostly still logs its memory summary.
_SIGNALS = (
    (signal.SIGINT, "interrupted"),
    (signal.SIGTERM, "terminated"),
    (signal.SIGKILL, "killed"),
)
_ROOM_BYTES = 2**20
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Stopped:
    """How a server ended ('interrupted', 'terminated', 'killed', 'already gone').

    `memory` says whether its cards are as before: 'ok', 'unknown', or '' for a server without.
    """

    how: str
    memory: str = ""


def start(
    argv: Sequence[str], env: Mapping[str, str], log: Path, keep_open: Sequence[int] = ()
) -> int:
    """Start a program in a session of its own, its output in `log` (begun anew); returns its pid.

    `keep_open` are file descriptors that it inherits. Raises KeyelabError when it cannot be
    started at all.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if not has_room(log):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sink = log.open("wb")
    except OSError as error:
        raise KeyelabError(
            f"expected to write the server's log at {shown(log)}, found: {error.strerror}",
            f"df -h {shown(log.parent)}; ls -ld {shown(log.parent)}",
        ) from None
    with sink:
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(keep_open),
            )
        except OSError as error:
            raise KeyelabError(
                f"expected to start {shown(argv[0])}, found: {error.strerror}",
                "build it again: keyelab run --from build",
            ) from None
    _children[process.pid] = process
    return process.pid


def has_room(log: Path) -> bool:
    """Whether a log can grow by a MiB. llama-server goes on without a word when it cannot."""
    try:
        return shutil.disk_usage(log.parent).free > _ROOM_BYTES
    except OSError:
        return False


def exit_status(pid: int) -> int | None:
    """Exit status of an ended program that this process started (negative: signal); else None."""
    if child := _children.get(pid):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(5)
    return None


def stop(server: ServerState, grace_s: float = 20.0, memory_s: float = 30.0) -> Stopped:
    """Stop a server until its processes, its port and its cards' memory are free; forget its state.

    `grace_s` is how long each of three signals may take, `memory_s` how long the cards may. A
    process that merely has the server's old pid is not touched. Raises KeyelabError when the
    server outlives SIGKILL or leaves a process, or when more memory of its cards is in use than
    before its start.
    """
    process = state.process_of(server)
    how = "already gone"
    if process:
        with contextlib.suppress(OSError):  # a full disk is no reason to let it run
            state.write(server.model_copy(update={"stopping": True}))
        how = _end(process, server, grace_s)
    exit_status(server.pid)  # takes the zombie of an own child away
    _wait_for_locks(server, grace_s)
    state.forget(server)
    if not process or not server.cards:
        return Stopped(how)
    found = memory.back(server.before_bytes, limit_s=memory_s)
    if found.status == "failed":
        raise KeyelabError(
            f"the server on port {server.port} has ended ({how}), and its device memory is not "
            f"back after {memory_s:g} s: {found.found}",
            found.remedy,
        )
    return Stopped(how, found.status)


def _end(process: psutil.Process, server: ServerState, grace_s: float) -> str:
    family = [process]
    for number, word in _SIGNALS:
        with contextlib.suppress(psutil.Error):
            family += [child for child in process.children(True) if child not in family]
        for member in family if number == signal.SIGKILL else [process]:
            with contextlib.suppress(psutil.Error):
                member.send_signal(number)
                member.send_signal(signal.SIGCONT)  # a suspended one would not hear
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if all(map(_is_gone, family)) and _has_left_port(server):
                return word
            time.sleep(0.05)
    raise KeyelabError(
        f"expected the server (pid {server.pid}) to end and to free port {server.port}, it "
        "outlives SIGKILL: it belongs to another user, or hangs in a driver",
        f"look at it: ps -o user,stat,wchan -p {server.pid}; ss -ltnp 'sport = :{server.port}'",
    )


def _has_left_port(server: ServerState) -> bool:
    if is_free(server.host, server.port):
        return True
    pids = listeners(server.port, server.host)
    # who began it in another session has come there by itself
    return bool(pids) and not any(pid and _session(pid) == server.pid for pid in pids)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _wait_for_locks(server: ServerState, limit_s: float) -> None:
    """A process is a zombie before its last thread has left the driver; its locks go after that."""
    names = [lock.port(server.port), *map(lock.card, server.cards)]
    deadline = time.monotonic() + limit_s
    while held := [one for one in names if (lock.owner(one) or {}).get("pid") == server.pid]:
        if time.monotonic() > deadline:
            path = lock.folder() / held[0]
            raise KeyelabError(
                f"the server (pid {server.pid}) has ended, and something that it has started still "
                f"holds {', '.join(held)}",
                f"find it: fuser -v {path}",
            )
        time.sleep(0.02)


def _is_gone(process: psutil.Process) -> bool:
    # not Process.wait: the zombie of a server whose parent lives would be waited for in vain
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
