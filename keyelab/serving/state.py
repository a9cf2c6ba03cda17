"""What is known of a started server: workdir/servers/<port>.json, and whether it still runs."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from keyelab.errors import KeyelabError
from keyelab.files import located, read_json, shown, write_json

_START_TIME = 22  # field of /proc/<pid>/stat, proc(5)


class ServerState(BaseModel):
    """A server that keyelab started.

    `started_ticks` (clock ticks since boot) and `boot_id` tell its process from a later one with
    the same pid. `key` is a digest of what it was started from. Paths are as `files.shown` gives
    them, `argv` is as it was run. `ready_s` is None until it has answered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    started_ticks: int
    boot_id: str
    argv: list[str]
    key: str
    url: str
    host: str
    port: int
    alias: str
    model: str
    mmproj: str
    log: str
    started: str
    run_dir: str
    file: str
    ready_s: float | None = None


def path(workdir: Path, port: int) -> Path:
    """Where the state of the server on a port is kept."""
    return workdir / "servers" / f"{port}.json"


def write(state: ServerState) -> ServerState:
    """Keep a state, whole or not at all."""
    write_json(located(state.file), state.model_dump())
    return state


def read(file: Path) -> ServerState:
    """Read a state; KeyelabError for a file that is none."""
    content = read_json(file)
    try:
        return ServerState.model_validate(content)
    except ValidationError as error:
        problem = str(error).splitlines()[1:3]
        raise KeyelabError(
            f"expected a server state in {shown(file)}, found {' '.join(problem)}",
            f"see what runs (ps -C llama-server), then remove it: rm {shown(file)}",
        ) from None


def all_states(workdir: Path) -> list[ServerState]:
    """Every server that keyelab started with this workdir and did not stop, by port."""
    files = (workdir / "servers").glob("*.json")
    return [read(file) for file in sorted(files, key=lambda file: (len(file.name), file.name))]


def forget(state: ServerState) -> None:
    """Remove a state whose server is gone."""
    located(state.file).unlink(missing_ok=True)


def is_running(state: ServerState) -> bool:
    """Whether the very process that was started still runs (a zombie does not)."""
    return state.boot_id == boot_id() and state.started_ticks == start_ticks(state.pid)


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return int(fields[_START_TIME - 3])


def boot_id() -> str:
    """The kernel's name of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
