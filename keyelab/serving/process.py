"""The server's process: started so that it outlives this one, stopped until nothing is left."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving.port import is_free
from keyelab.serving.state import ServerState, forget, process_of

# SIGINT first: on it llama-server ends by itself and mostly still logs its memory summary.
_SIGNALS = (
    (signal.SIGINT, "interrupted"),
    (signal.SIGTERM, "terminated"),
    (signal.SIGKILL, "killed"),
)
_children: dict[int, subprocess.Popen[bytes]] = {}


def start(argv: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Start a program in a session of its own, its output in `log` (begun anew); returns its pid.

    Raises KeyelabError when it cannot be started at all.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise KeyelabError(
                f"expected to start {shown(argv[0])}, found: {error.strerror}",
                "build it again: keyelab run --from build",
            ) from None
    _children[process.pid] = process
    return process.pid


def exit_status(pid: int) -> int | None:
    """Exit status of an ended program that this process started (negative: signal); else None."""
    if child := _children.get(pid):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(5)
    return None


def stop(state: ServerState, grace_s: float = 20.0) -> str:
    """Stop a server and wait until its process and its port are gone; forget its state.

    Returns 'interrupted', 'terminated', 'killed' or 'already gone'. A process that merely has
    the server's old pid is not touched. Raises KeyelabError when the server outlives SIGKILL.
    """
    process = process_of(state)
    how = _end(process, state, grace_s) if process else "already gone"
    exit_status(state.pid)  # takes the zombie of an own child away
    forget(state)
    return how


def _end(process: psutil.Process, state: ServerState, grace_s: float) -> str:
    for number, word in _SIGNALS:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if _is_gone(process) and is_free(state.host, state.port):
                return word
            time.sleep(0.05)
    raise KeyelabError(
        f"expected the server (pid {state.pid}) to end and to free port {state.port}, it outlives "
        "SIGKILL: it belongs to another user, or hangs in a driver",
        f"look at it: ps -o user,stat,wchan -p {state.pid}; ss -ltnp 'sport = :{state.port}'",
    )


def _is_gone(process: psutil.Process) -> bool:
    # not Process.wait: the zombie of a server whose parent lives would be waited for in vain
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
