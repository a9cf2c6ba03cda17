"""Waiting until a server answers, and noticing at once when it never will."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from keyelab.errors import KeyelabError
from keyelab.files import located, shown
from keyelab.serving import cause, probe, process
from keyelab.serving.state import ServerState, is_running
from keyelab.shell import quoted

OnProgress = Callable[[float | None, str], None]
_STUCK_S = 20.0


class KeyRefused(KeyelabError):
    """The server is up and wants another API key; it is left alone."""


@dataclass
class _Watch:
    """When the log and the memory of a starting server last moved (monotonic seconds)."""

    log: Path
    pid: int
    size: int = -1
    rss_bytes: int = -1
    moved: float = 0.0

    def look(self) -> None:
        try:
            size = self.log.stat().st_size
            rss = int(psutil.Process(self.pid).memory_info().rss)
        except (OSError, psutil.Error):
            return
        if (size, rss) != (self.size, self.rss_bytes):
            self.size, self.rss_bytes, self.moved = size, rss, time.monotonic()


def wait(state: ServerState, timeout_s: float, on_progress: OnProgress) -> float:
    """Wait until /health and /props both answer 200; returns the seconds waited.

    The process is looked at before the network. Raises KeyelabError when it has ended (exit
    status 0 too), when something else answers on its port, or when `timeout_s` has passed;
    KeyRefused for 401.
    """
    started = time.monotonic()
    watch = _Watch(located(state.log), state.pid)
    while True:
        if not is_running(state):
            raise died(state)
        watch.look()
        waited = time.monotonic() - started
        if _answers(state):
            return waited
        if waited >= timeout_s:
            raise _late(state, timeout_s, time.monotonic() - watch.moved)
        on_progress(None, f"loading for {waited:.0f} s: {last_line(state)[:80]}")
        time.sleep(min(0.1 + waited / 20, 1.0, max(0.01, timeout_s - waited)))


def died(state: ServerState) -> KeyelabError:
    """The error for a server that ended before it was ready, with its log's cause."""
    code = process.exit_status(state.pid)
    how = "" if code is None else f" with {'signal' if code < 0 else 'exit status'} {abs(code)}"
    found = cause.first(log_text(state))
    said = found.line if found else "its log is empty"
    return KeyelabError(
        f"expected llama-server to become ready, it ended{how} while loading: {said}; "
        f"log: {state.log}",
        (found.remedy if found else "") or f"run it by hand: {quoted(state.argv)}",
    )


def last_line(state: ServerState) -> str:
    """The newest line of the server's log, without its time."""
    lines = [line for line in log_text(state, 4096).splitlines() if line.strip()]
    return cause.message(lines[-1]) if lines else "no line in its log yet"


def log_text(state: ServerState, last_bytes: int | None = None) -> str:
    """The server's log, or its last bytes; '' when it is not there."""
    try:
        with located(state.log).open("rb") as stream:
            if last_bytes is not None:
                stream.seek(max(0, stream.seek(0, 2) - last_bytes))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _answers(state: ServerState) -> bool:
    for path in ("/health", "/props"):  # /health is 200 a moment before the rest is
        answer = probe.get(state.url, path)
        if answer is None or answer.loading:
            return False
        if answer.status == 401:
            raise KeyRefused(
                f"the server at {state.url} is up and refuses the API key (401 for {path})",
                f"export {probe.KEY_VARIABLE} with its key and run the phase again",
            )
        if answer.status != 200 or answer.json is None:
            raise KeyelabError(
                f"expected llama-server's answer from {state.url}{path}, found status "
                f"{answer.status}: {answer.text or 'nothing'}; another program or a proxy answers",
                f"see who holds the port: ss -ltnp 'sport = :{state.port}'",
            )
    return True


def _late(state: ServerState, timeout_s: float, still_s: float) -> KeyelabError:
    stage = last_line(state)
    if still_s >= min(_STUCK_S, timeout_s / 2):
        verdict = f"stuck: neither its log nor its memory moved for {still_s:.0f} s"
        hint = f"read its log: tail {shown(located(state.log))}"
    else:
        verdict = f"slow: its log or memory moved {still_s:.0f} s ago"
        hint = f"wait longer: --set serve.ready_timeout_s={timeout_s * 3:g}"
    return KeyelabError(
        f"expected the server to be ready within {timeout_s:g} s, it still loads ({verdict}); "
        f"last stage: {stage}; log: {state.log}",
        hint,
    )
