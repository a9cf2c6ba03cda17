"""The server's process: started so that it outlives this one, stopped until nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import port as ports
from keyelab.serving import state as states
from keyelab.serving.state import ServerState

# SIGINT first: on it llama-server still writes its memory summary.
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
    """Exit status of a program that this process started (negative: signal); None otherwise."""
    child = _children.get(pid)
    return child.poll() if child else None


def reap(pid: int) -> None:
    """Take away the zombie of an ended program that this process started."""
    if exit_status(pid) is not None:
        del _children[pid]


def stop(state: ServerState, grace_s: float = 20.0) -> str:
    """Stop a server and wait until its process and its port are gone; forget its state.

    Returns 'interrupted', 'terminated', 'killed' or 'already gone'. A process that merely has
    the server's old pid is not touched. Raises KeyelabError when it outlives SIGKILL or the port
    stays taken by it.
    """
    how = _end(state, grace_s)
    reap(state.pid)
    deadline = time.monotonic() + grace_s
    while not ports.is_free(state.host, state.port):
        who = ports.holder(state.port)
        if who is not None and who.pid != state.pid:
            break  # another program has taken the port since: not ours to wait for
        if time.monotonic() >= deadline:
            raise KeyelabError(
                f"the server (pid {state.pid}) is gone, port {state.port} is still taken",
                f"see who holds it: ss -ltnp 'sport = :{state.port}'",
            )
        time.sleep(0.05)
    states.forget(state)
    return how


def _end(state: ServerState, grace_s: float) -> str:
    if not states.is_running(state):
        return "already gone"
    for number, word in _SIGNALS:
        try:
            os.kill(state.pid, number)
        except ProcessLookupError:
            return word
        except PermissionError:
            raise KeyelabError(
                f"expected to stop the server (pid {state.pid}), it belongs to another user",
                f"stop it as its owner: kill -INT {state.pid}",
            ) from None
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if not states.is_running(state):
                return word
            time.sleep(0.05)
    raise KeyelabError(
        f"expected the server (pid {state.pid}) to end, it outlives SIGKILL: it hangs in the "
        "kernel or a driver",
        f"look at it (ps -o stat,wchan -p {state.pid}) and tell the machine's operator",
    )
