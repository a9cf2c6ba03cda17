"""What is known of a started server: workdir/servers/<port>.json, and whether it still runs."""

from __future__ import annotations

from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from keyelab.errors import KeyelabError
from keyelab.files import located, read_json, shown, write_json


class ServerState(BaseModel):
    """A server that keyelab started.

    `key` is a digest of what it was started from; the API key is nowhere in it, only its file's
    name. Paths are as `files.shown` gives them, `argv` is as it was run. `started_ticks` is the
    process's start, in clock ticks since boot (proc(5)). `ready_s` is None until it has answered.
    `cards` are held by it alone, `before_bytes` is
    what they held before (None: unknown). `stopping` says that it was asked to end.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    argv: list[str]
    key: str
    url: str
    host: str
    port: int
    log: str
    started: str
    run_dir: str
    file: str
    ready_s: float | None = None
    started_ticks: int | None = None
    api_key_file: str = ""
    cards: list[str] = []
    before_bytes: dict[str, int | None] = {}
    stopping: bool = False


def path(workdir: Path, port: int) -> Path:
    """Where the state of the server on a port is kept."""
    return workdir / "servers" / f"{port}.json"


def write(state: ServerState) -> ServerState:
    """Keep a state, whole or not at all."""
    write_json(located(state.file), state.model_dump())
    return state


def forget(state: ServerState) -> None:
    """Remove a state whose server is gone."""
    located(state.file).unlink(missing_ok=True)


def all_states(workdir: Path) -> list[ServerState]:
    """Every server that keyelab started with this workdir and did not stop, by port.

    Raises KeyelabError for a file that is no state.
    """
    states = []
    for file in (workdir / "servers").glob("*.json"):
        try:
            states.append(ServerState.model_validate(read_json(file)))
        except (KeyelabError, ValidationError):
            if not file.exists():
                continue  # another keyelab has stopped it in between
            raise KeyelabError(
                f"expected a server state in {shown(file)}, found something else",
                f"see what runs (ps -C llama-server), then remove it: rm {shown(file)}",
            ) from None
    return sorted(states, key=lambda state: state.port)


def is_running(state: ServerState) -> bool:
    """Whether the very process that was started still runs (a zombie does not)."""
    return process_of(state) is not None


def process_of(state: ServerState) -> psutil.Process | None:
    """The process that was started; another one with its pid has other words or began later."""
    if state.started_ticks not in (None, ticks(state.pid)):
        return None
    try:
        process = psutil.Process(state.pid)
        words = process.cmdline()
        if not words and process.status() != psutil.STATUS_ZOMBIE:
            return process  # in the middle of exec(2) the new words are not there yet
        # an interpreter stands before the words of a wrapper script
        return process if words[-len(state.argv) :] == state.argv else None
    except psutil.Error:
        return None


def run_that_stops(server: ServerState) -> int | None:
    """The pid of the `keyelab run` that started a server, still goes on and does not keep it."""
    try:
        run = read_json(located(server.run_dir) / "run.json")
    except KeyelabError:  # of a notebook by itself: it stays
        return None
    serve = next(phase for phase in run["phases"] if phase["phase"] == "serve")
    if run["status"] != "running" or serve["parameters"]["keep_server"]["value"]:
        return None
    process = process_of(server)
    try:  # another process with the run's old pid began after the server
        older = process and psutil.Process(run["pid"]).create_time() <= process.create_time()
    except psutil.Error:
        return None
    return run["pid"] if older else None


def ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: field 22 of proc(5)'s stat."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
