"""Waiting until a server answers, and noticing at once when it never will."""

from __future__ import annotations

import time
from collections.abc import Callable

from keyelab.errors import KeyelabError
from keyelab.files import located
from keyelab.serving import cause, probe
from keyelab.serving.process import exit_status
from keyelab.serving.state import ServerState, is_running
from keyelab.shell import quoted

OnProgress = Callable[[float | None, str], None]


def wait(state: ServerState, timeout_s: float, on_progress: OnProgress) -> float:
    """Wait until /health and /props both answer; returns the seconds waited.

    Raises KeyelabError when the process has ended (exit status 0 too), when it refuses the API
    key, or when `timeout_s` has passed.
    """
    started = time.monotonic()
    while is_running(state):
        waited = time.monotonic() - started
        # /health is 200 a moment before the rest is
        if all(probe.get(state.url, path) for path in ("/health", "/props")):
            return waited
        lines = [cause.message(line) for line in log_text(state).splitlines() if line.strip()]
        last = lines[-1] if lines else "no line in its log yet"
        if waited >= timeout_s:
            raise KeyelabError(
                f"expected the server to be ready within {timeout_s:g} s, it still loads; its "
                f"log's last line: {last}; log: {state.log}",
                f"wait longer when its log grows: --set serve.ready_timeout_s={timeout_s * 3:g}",
            )
        on_progress(None, f"loading for {waited:.0f} s: {last[:80]}")
        time.sleep(min(0.1 + waited / 20, 1.0))
    code = exit_status(state.pid)
    how = "" if code is None else f" with {'signal' if code < 0 else 'exit status'} {abs(code)}"
    said, remedy = cause.first(log_text(state))
    raise KeyelabError(
        f"expected llama-server to become ready, it ended{how} while loading: {said}; "
        f"log: {state.log}",
        remedy or f"run it by hand: {quoted(state.argv)}",
    )


def log_text(state: ServerState) -> str:
    """The server's log; '' when it is not there."""
    log = located(state.log)
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
