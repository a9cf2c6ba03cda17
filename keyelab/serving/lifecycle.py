"""Having servers: those that already run from the same things, or new ones."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.serving import (
    environment,
    lock,
    memory,
    occupant,
    port,
    probe,
    process,
    ready,
    restarts,
    status,
)
from keyelab.serving import state as states
from keyelab.serving.command import ServerPlan
from keyelab.serving.probe import KeyRefused
from keyelab.serving.progress import size_bytes
from keyelab.serving.ready import Load, OnProgress
from keyelab.serving.state import ServerState

_PORTS_TRIED = 20


@dataclass(frozen=True)
class Place:
    """Where servers' states and logs go, which run they belong to, and how many starts an hour."""

    workdir: Path
    run_dir: Path
    log: Path  # the port is added to its name: two servers of a run never share a log
    max_starts_per_hour: int = 0  # 0: any number


def ensure(
    plans: Sequence[ServerPlan], place: Place, standstill_s: float, on_progress: OnProgress
) -> list[ServerState]:
    """A ready server for each plan: adopted if it runs from the same things, else started.

    New ones load side by side. When one does not become ready all new ones are stopped again,
    unless it is up and only the API key is wrong. Raises KeyelabError: port or card taken,
    started too often, died while loading, stuck, too slow, or ours and degraded.
    """
    folder = place.workdir / "servers"
    new: list[ServerState] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as mutex:
            fcntl.flock(mutex, fcntl.LOCK_EX)  # so that two runs do not start the same server
            known = _living(place.workdir)
            found = [_adoptable(plan, known, place) for plan in plans]
            if not all(found):
                restarts.note(place.workdir, place.max_starts_per_hour, shown(place.run_dir))
            servers = []
            for plan, old in zip(plans, found, strict=True):
                servers.append(old or _launch(plan, place))
                new += [] if old else servers[-1:]
        loads = [
            Load(server, standstill_s, size_bytes([plan.model, plan.mmproj]))
            for server, plan in zip(servers, plans, strict=True)
        ]
        ready.wait(loads, on_progress)
        return [_proven(plan, load) for plan, load in zip(plans, loads, strict=True)]
    except KeyRefused:
        raise
    except BaseException as error:
        _give_up(new, error)
        if isinstance(error, OSError):
            where = shown(error.filename or folder)
            raise KeyelabError(
                f"expected to write {where}, found: {error.strerror}",
                f"df -h {shown(place.workdir)} {shown(place.run_dir)}",
            ) from None
        raise


def rows(servers: Sequence[ServerState], run_dir: Path) -> list[dict[str, Any]]:
    """A row a server; `origin` tells an adopted one from a new one."""
    return [
        {
            "port": one.port,
            "pid": one.pid,
            **({"cards": " ".join(one.cards)} if one.cards else {}),
            "started": one.started,
            "ready after": None if one.ready_s is None else f"{one.ready_s:.1f} s",
            "origin": "new" if one.run_dir == shown(run_dir) else f"adopted from {one.run_dir}",
        }
        for one in servers
    ]


def _proven(plan: ServerPlan, load: Load) -> ServerState:
    server = load.state
    _same_model(plan, server)
    if server.ready_s is None:
        server = states.write(server.model_copy(update={"ready_s": round(load.took_s or 0.0, 3)}))
    return server


def _give_up(servers: Sequence[ServerState], error: BaseException) -> None:
    """Stop servers of which one did not become ready; what cannot be stopped is named besides."""
    left = []
    for server in servers:
        try:
            process.stop(server)
        except KeyelabError as problem:
            left.append(problem)
    if left:
        why = error.message if isinstance(error, KeyelabError) else type(error).__name__
        raise KeyelabError(
            "; and ".join([why, *(problem.message for problem in left)]),
            left[0].hint,
            getattr(error, "diagnosis", ""),
        ) from error


def _living(workdir: Path) -> list[ServerState]:
    """The servers that run; forgets ended ones."""
    known = []
    for server in states.all_states(workdir):
        if states.is_running(server):
            known.append(server)
        else:
            process.stop(server)  # its zombie and its state
    return known


def _adoptable(plan: ServerPlan, known: Sequence[ServerState], place: Place) -> ServerState | None:
    """The running server (pid, start time, words) with the plan's key and, unless 0, its port.

    Raises KeyelabError when it is not fit to be used.
    """
    for server in known:
        if server.key != plan.key or plan.params.port not in (0, server.port):
            continue
        goes_on = server.run_dir != shown(place.run_dir) and states.run_that_stops(server)
        if goes_on and plan.params.port:
            raise KeyelabError(
                f"expected TCP port {server.port} to be free, found the server (pid {server.pid}) "
                f"of {server.run_dir}, a run that still goes on (pid {goes_on}) and stops it at "
                "its end",
                "wait for that run, or: keyelab run --from serve --set serve.port=0",
            )
        if goes_on:
            continue
        now = status.of(server)
        if now.phase not in ("starting", "ready"):
            raise KeyelabError(
                f"expected the server of {server.run_dir} (pid {server.pid}, port {server.port}) "
                f"to be ready, found it {now.phase}: {now.why}",
                f"keyelab stop --port {server.port}, then: keyelab run --from serve",
            )
        if now.phase == "ready":
            _same_model(plan, server)
        return server
    return None


def _same_model(plan: ServerPlan, server: ServerState) -> None:
    props = probe.get(server.url, "/props", server.api_key_file) or {}
    found = props.get("model_path")
    if not found or shown(str(found)) != shown(plan.model):
        raise KeyelabError(
            f"expected the server on port {server.port} to serve {shown(plan.model)}, found "
            f"{shown(str(found)) if found else 'no answer to /props'}",
            f"keyelab stop --port {server.port}, then: keyelab run --from serve",
        )


def _launch(plan: ServerPlan, place: Place) -> ServerState:
    """Start the plan's server and write its state before anything else can go wrong."""
    for number in range(_PORTS_TRIED, -1, -1):
        try:
            return _launch_on(_port(plan), plan, place)
        except lock.Taken as taken:
            # any port will do, and another keyelab was quicker on this one
            if plan.params.port or not number or "TCP port" not in taken.message:
                raise
    raise AssertionError("the last try returns or raises")


def _port(plan: ServerPlan) -> int:
    asked = plan.params.port
    if asked and lock.owner(lock.port(asked)) is not None:
        return asked  # taking the lock says whose it is, also while it does not listen yet
    return port.claim(plan.params.host, asked, plan.build_info)


def _launch_on(number: int, plan: ServerPlan, place: Place) -> ServerState:
    log = place.log.with_name(f"{place.log.stem}-{number}{place.log.suffix}")
    argv = plan.argv(number)
    names = [lock.port(number), *map(lock.card, plan.cards)]
    owner = {"port": number, "run": shown(place.run_dir), "workdir": shown(place.workdir)}
    with lock.held(names, owner) as descriptors:
        before = memory.used(plan.cards, plan.env)
        env = environment.chosen(plan.env, plan.params.api_key_file)
        pid = owner["pid"] = process.start(argv, env, log, descriptors)
        server = ServerState(
            pid=pid,
            argv=argv,
            key=plan.key,
            url=occupant.url(plan.params.host, number),
            host=plan.params.host,
            port=number,
            log=shown(log),
            started=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run_dir=shown(place.run_dir),
            file=shown(states.path(place.workdir, number)),
            started_ticks=states.ticks(pid),
            api_key_file=plan.params.api_key_file,
            cards=list(plan.cards),
            before_bytes=before,
        )
        try:
            return states.write(server)
        except BaseException as error:  # a server without a state would be nobody's
            _give_up([server], error)
            raise
