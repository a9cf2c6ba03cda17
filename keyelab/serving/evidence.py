"""What a server that does not get on was doing: kept before it is stopped, for whoever asks why."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import psutil

from keyelab.diagnose.line import clean
from keyelab.files import located, redact, redacted, shown, write_json
from keyelab.serving import memory, port
from keyelab.serving.state import ServerState

_LOG_LINES, _LOG_BYTES, _THREADS = 100, 2**16, 64


def collect(server: ServerState, why: str) -> Path:
    """Write evidence beside the server's log and return its path.

    From /proc: status, io, each thread's state, where it waits in the kernel and, for root, its
    kernel stack; open files with their positions; how much of each mapped model file is in memory.
    Besides: the log's end, who listens on the port, memory of the cards (bytes). What cannot be
    read is None. No environment: it may hold a key.
    """
    proc = Path(f"/proc/{server.pid}")
    found: dict[str, Any] = {
        "why": why,
        "pid": server.pid,
        "command": server.argv,
        "status": _text(proc / "status"),
        "io": _text(proc / "io"),
        "threads": [_thread(task) for task in sorted(_listed(proc / "task"))[:_THREADS]],
        "open_files": [_file(link) for link in sorted(_listed(proc / "fd"))],
        "mapped_bytes": _maps(server.pid),
        "listeners": sorted(str(pid) for pid in port.listeners(server.port)),
        "memory_before_bytes": server.before_bytes,
        "memory_bytes": memory.used(server.cards),
        "log_end": _end(located(server.log)),
    }
    log = located(server.log)
    return write_json(log.with_name(f"{log.stem}-evidence.json"), redacted(found))


def _thread(task: Path) -> dict[str, Any]:
    stat = _text(task / "stat")
    return {
        "name": _text(task / "comm"),
        "state": stat.rpartition(")")[2].split()[0] if stat else None,
        "waits_in": _text(task / "wchan"),
        "kernel_stack": _text(task / "stack"),
    }


def _file(link: Path) -> dict[str, Any]:
    target, info = None, _text(link.parent.parent / "fdinfo" / link.name) or ""
    with contextlib.suppress(OSError):
        target = shown(name) if (name := str(link.readlink())).startswith("/") else name
    position = next((line.split()[1] for line in info.splitlines() if line[:4] == "pos:"), None)
    return {"number": int(link.name), "file": target, "position": position and int(position)}


def _maps(pid: int) -> dict[str, int] | None:
    try:
        maps = psutil.Process(pid).memory_maps()
    except (psutil.Error, OSError):
        return None
    return {shown(item.path): item.rss for item in maps if item.path.endswith(".gguf")}


def _end(log: Path) -> list[str] | None:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
            return [redact(clean(line)) for line in stream.read().splitlines()[-_LOG_LINES:]]
    except OSError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
