"""Having a server: the one that already runs from the same things, or a new one."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import command, port, process, ready, state
from keyelab.serving.command import ServerPlan
from keyelab.serving.ready import KeyRefused, OnProgress
from keyelab.serving.state import ServerState


@dataclass(frozen=True)
class Place:
    """Where a server's state and log go, and which run it belongs to."""

    workdir: Path
    run_dir: Path
    log: Path  # the port is added to its name: two servers of a run never share a log


@dataclass(frozen=True)
class Served:
    """A server that answers; `adopted` when it ran before."""

    state: ServerState
    adopted: bool


def ensure(
    plan: ServerPlan,
    env: Mapping[str, str],
    place: Place,
    timeout_s: float,
    on_progress: OnProgress,
) -> Served:
    """Adopt the server of this workdir that was started from the same things, or start one.

    A server that does not become ready is stopped again, unless it only refuses the API key or
    was running before. Raises KeyelabError: port taken, died while loading, not ready in time.
    """
    with _one_at_a_time(place.workdir):
        forget_gone(place.workdir)
        found = adoptable(plan, place.workdir)
        started = found or launch(plan, env, place)
    try:
        waited = ready.wait(started, timeout_s, on_progress)
    except KeyRefused:
        raise
    except BaseException as error:
        if found is None:
            _stop_again(started, error)
        raise
    if started.ready_s is None:
        started = state.write(started.model_copy(update={"ready_s": round(waited, 3)}))
    return Served(started, adopted=found is not None)


def adoptable(plan: ServerPlan, workdir: Path) -> ServerState | None:
    """A running server of this workdir with the plan's files, words and (unless 0) port."""
    for known in state.all_states(workdir):
        wanted = plan.port in (0, known.port)
        if wanted and known.key == plan.key and state.is_running(known):
            return known
    return None


def forget_gone(workdir: Path) -> list[ServerState]:
    """Remove the states of servers that no longer run; returns them."""
    gone = [known for known in state.all_states(workdir) if not state.is_running(known)]
    for known in gone:
        process.reap(known.pid)
        state.forget(known)
    return gone


def launch(plan: ServerPlan, env: Mapping[str, str], place: Place) -> ServerState:
    """Start the plan's server and write its state before anything else can go wrong."""
    number = plan.port or port.free(plan.host)
    file = state.path(place.workdir, number)
    port.require_free(plan.host, number, state.read(file).pid if file.exists() else None)
    log = place.log.with_name(f"{place.log.stem}-{number}{place.log.suffix}")
    argv = plan.argv(number)
    pid = process.start(argv, command.environment(env), log)
    return state.write(
        ServerState(
            pid=pid,
            started_ticks=state.start_ticks(pid) or 0,
            boot_id=state.boot_id(),
            argv=argv,
            key=plan.key,
            url=plan.url(number),
            host=plan.host,
            port=number,
            alias=plan.alias,
            model=shown(plan.model),
            mmproj=shown(plan.mmproj),
            log=shown(log),
            started=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run_dir=shown(place.run_dir),
            file=shown(file),
        )
    )


def _stop_again(started: ServerState, error: BaseException) -> None:
    try:
        process.stop(started)
    except KeyelabError as stopping:
        if isinstance(error, KeyelabError):
            raise KeyelabError(
                f"{error.message}; then: {stopping.message}", stopping.hint
            ) from error


@contextlib.contextmanager
def _one_at_a_time(workdir: Path) -> Iterator[None]:
    """Starting is one at a time per workdir, so that two runs cannot take one port."""
    folder = workdir / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
