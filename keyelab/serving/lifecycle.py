"""Having a server: the one that already runs from the same things, or a new one."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import port, process, ready, state
from keyelab.serving.command import ServerPlan
from keyelab.serving.probe import KeyRefused
from keyelab.serving.ready import OnProgress
from keyelab.serving.state import ServerState


@dataclass(frozen=True)
class Place:
    """Where a server's state and log go, and which run it belongs to."""

    workdir: Path
    run_dir: Path
    log: Path  # the port is added to its name: two servers of a run never share a log


def ensure(
    plan: ServerPlan,
    env: Mapping[str, str],
    place: Place,
    timeout_s: float,
    on_progress: OnProgress,
) -> ServerState:
    """Adopt the server of this workdir that was started from the same things, or start one.

    A new server that does not become ready is stopped again, unless it is up and only the API key
    is wrong. Raises KeyelabError: port taken, died while loading, not ready in time.
    """
    folder = place.workdir / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that two runs cannot take one port
        found = _adoptable(plan, place.workdir)
        server = found or _launch(plan, env, place)
    try:
        waited = ready.wait(server, timeout_s, on_progress)
    except KeyRefused:
        raise
    except BaseException as error:
        if found is None:
            _give_up(server, error)
        raise
    if server.ready_s is None:
        server = state.write(server.model_copy(update={"ready_s": round(waited, 3)}))
    return server


def _give_up(server: ServerState, error: BaseException) -> None:
    """Stop a server that did not become ready; one that cannot be stopped is named besides."""
    try:
        process.stop(server)
    except KeyelabError as left:
        why = error.message if isinstance(error, KeyelabError) else type(error).__name__
        raise KeyelabError(
            f"{why}; and {left.message}", left.hint, getattr(error, "diagnosis", "")
        ) from error


def _adoptable(plan: ServerPlan, workdir: Path) -> ServerState | None:
    """A running server with the plan's files, words and (unless 0) port; forgets ended ones."""
    for known in state.all_states(workdir):
        if not state.is_running(known):
            process.stop(known)  # its zombie and its state
        elif known.key == plan.key and plan.params.port in (0, known.port):
            return known
    return None


def _launch(plan: ServerPlan, env: Mapping[str, str], place: Place) -> ServerState:
    """Start the plan's server and write its state before anything else can go wrong."""
    number = port.claim(plan.params.host, plan.params.port)
    log = place.log.with_name(f"{place.log.stem}-{number}{place.log.suffix}")
    argv = plan.argv(number)
    # llama-server would take flags from LLAMA_ARG_… variables, unseen
    seen = {name: value for name, value in env.items() if not name.startswith("LLAMA_ARG_")}
    return state.write(
        ServerState(
            pid=process.start(argv, seen, log),
            argv=argv,
            key=plan.key,
            url=plan.url(number),
            host=plan.params.host,
            port=number,
            log=shown(log),
            started=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run_dir=shown(place.run_dir),
            file=shown(state.path(place.workdir, number)),
        )
    )
