"""The state of a server: stopped, starting, ready, degraded or stopping, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from keyelab.diagnose import diagnose
from keyelab.errors import KeyelabError
from keyelab.facts import ServeFacts
from keyelab.files import located
from keyelab.serving import port, probe, state
from keyelab.serving.process import has_room
from keyelab.serving.state import ServerState

Phase = Literal["stopped", "starting", "ready", "degraded", "stopping"]


@dataclass(frozen=True)
class Status:
    """A server's phase, and the reason where it is neither starting nor ready."""

    phase: Phase
    why: str = ""


def of(server: ServerState, timeout_s: float = 5.0) -> Status:
    """Judge by the process, the state file, the port's owner, /health and the log.

    Degraded: the process lives, and it was ready and no longer answers so, another process
    answers in its place, or its log tells an error after which no answer can be trusted, or
    cannot tell it.
    """
    process = state.process_of(server)
    if process is None:
        return Status("stopped", "its process is gone")
    if server.stopping:
        return Status("stopping", f"it was asked to end, its process {server.pid} still runs")
    others = port.strangers(server.host, server.port, server.pid)
    if others:
        names = ", ".join(f"pid {pid or 'of another user'}" for pid in others)
        return Status("degraded", f"another process listens on its port too: {names}")
    if said := _log_error(located(server.log)):
        return Status("degraded", said)
    if not has_room(located(server.log)):
        return Status("degraded", f"its log cannot grow, errors are lost: {server.log}")
    answer = probe.ask(server.url, "/health", timeout_s)
    if answer.status == 200:
        return Status("ready")
    if server.ready_s is None:
        return Status("starting")
    how = f"HTTP {answer.status}" if answer.status else f"nothing within {timeout_s:g} s"
    halted = ", its process is suspended (SIGSTOP)" if _suspended(process) else ""
    return Status("degraded", f"/health answers {how}{halted}")


def rows(workdir: Path) -> list[dict[str, Any]]:
    """Every server of a work folder that was not stopped, a row each; asks each of them."""
    known = [(one, of(one)) for one in state.all_states(workdir)]
    return [
        {"port": one.port, "pid": one.pid, "state": now.phase, "why": now.why, "cards": one.cards}
        | {"url": one.url, "started": one.started, "run": one.run_dir}
        for one, now in known
    ]


def require_running(facts: ServeFacts, remedy: str = "keyelab run --from serve") -> None:
    """Raise KeyelabError unless every server of these facts runs and is not degraded."""
    for fact in facts.servers or [facts]:
        known = state.all_states(located(fact.state_file).parent.parent)
        same = next((one for one in known if one.pid == fact.pid), None)
        now = of(same) if same else Status("stopped", "nothing is known of it any more")
        if now.phase not in ("ready", "starting"):
            raise KeyelabError(
                f"expected the server of 06_serve (pid {fact.pid}, {fact.url}) to run, found it "
                f"{now.phase}: {now.why}",
                remedy,
            )


def _log_error(log: Path) -> str:
    # a request that failed is that request's affair, and a warning no reason to distrust answers
    causes = diagnose(log, "runtime").causes if log.is_file() else []
    bad = next((found for found in causes if found.entry.severity == "error"), None)
    return f"{bad.title} ({bad.line})" if bad else ""


def _suspended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False
