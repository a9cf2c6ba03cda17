"""Waiting until a server answers, and noticing at once when it never will."""

from __future__ import annotations

import time
from collections.abc import Callable

from keyelab.diagnose import Report, diagnose
from keyelab.diagnose.finding import quoted
from keyelab.errors import KeyelabError
from keyelab.files import located
from keyelab.serving import probe
from keyelab.serving.process import exit_status
from keyelab.serving.progress import Progress
from keyelab.serving.state import ServerState, process_of
from keyelab.shell import quoted as command

OnProgress = Callable[[float | None, str], None]
_LONGEST = 10  # times the longest standstill: a log can grow for ever


def wait(state: ServerState, timeout_s: float, on_progress: OnProgress) -> float:
    """Wait until /health and /props both answer; returns the seconds waited.

    Raises KeyelabError when the process has ended (exit status 0 too), when nothing of it has
    moved for `timeout_s`, when it still loads after ten times that, and KeyRefused.
    """
    started = time.monotonic()
    progress = None
    while process := process_of(state):
        progress = progress or Progress(process, located(state.log))
        # /health is 200 a moment before the rest is
        if all(probe.get(state.url, path) for path in ("/health", "/props")):
            return time.monotonic() - started
        waited, quiet, last = time.monotonic() - started, progress.quiet_s(), progress.last_line()
        if quiet >= timeout_s:
            raise _late(
                state,
                f"expected the server (pid {state.pid}) to load, it is stuck: nothing has moved "
                f"for {quiet:.1f} s, neither log, memory nor reads ({progress.load()}); its log's "
                f"last line: {quoted(last)}",
            )
        if waited >= _LONGEST * timeout_s:
            raise _late(
                state,
                f"expected the server to be ready within {_LONGEST * timeout_s:g} s, it is slow "
                f"and still loads, something moved {quiet:.1f} s ago; its log's last line: "
                f"{quoted(last)}",
                f"keyelab run --from serve --set serve.ready_timeout_s={timeout_s * 3:g}",
            )
        on_progress(None, f"loading for {waited:.0f} s, quiet for {quiet:.0f} s: {last[:80]}")
        time.sleep(min(0.1 + waited / 20, 1.0))
    code = exit_status(state.pid)
    how = "" if code is None else f" with {'signal' if code < 0 else 'exit status'} {abs(code)}"
    report = read_log(state)
    raise KeyelabError(
        f"expected llama-server to become ready, it ended{how} while loading: {report.sentence}; "
        f"log: {state.log}",
        report.hint if report.cause else f"run it by hand: {command(state.argv)}",
        str(report),
    )


def read_log(state: ServerState, *said: str) -> Report:
    """What the server's log says, and after it what was `said` elsewhere."""
    log = located(state.log)
    return diagnose([*([log] if log.is_file() else []), *said])


def _late(state: ServerState, message: str, hint: str = "") -> KeyelabError:
    report = read_log(state, message)
    return KeyelabError(f"{message}; log: {state.log}", hint or report.hint, str(report))
