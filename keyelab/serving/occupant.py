"""Who is on a port that is not ours: told by its process, by the lock, and by what it answers."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil

from keyelab.serving import lock, probe


def of(host: str, port: int, pid: int | None, build: str = "") -> tuple[str, str]:
    """Who listens there, as a phrase, and what to do about it; `pid` None: another user's."""
    name = f"a process of another user (ss -ltnp 'sport = :{port}')"
    with contextlib.suppress(psutil.Error):
        name = f"{psutil.Process(pid).name()} (pid {pid})" if pid else name
    what, remedy = kind(url(host, port), build), f"stop it (kill {pid})" if pid else "stop it"
    if (held := lock.owner(lock.port(port))) is not None:
        what = f"{what}, of keyelab run {held.get('run', 'unknown')}"
        remedy = f"stop it: keyelab stop --port {port}, when keyelab status lists it"
    return f"{name}, {what}", remedy


def kind(address: str, build: str = "") -> str:
    """What answers at an address, as a phrase."""
    health = probe.ask(address, "/health", timeout_s=2)
    if health.status is None:
        return "which does not answer HTTP"
    if not health.is_llama:
        sign = f" ({health.server})" if health.server else ""
        return f"an HTTP server that is no llama-server{sign}"
    if health.status == 503:
        return "a llama-server that is still loading (503)"
    props = probe.ask(address, "/props", timeout_s=2)
    if props.status == 401:
        return "a llama-server that wants an API key (401)"
    said: dict[str, Any] = props.content if isinstance(props.content, dict) else {}
    seen = said.get("build_info") or "of unknown build"
    other = f", this one is {build}" if build and seen != build else ""
    return f"a llama-server {seen}{other}, with {said.get('model_path') or 'no model'}"


def url(host: str, port: int) -> str:
    """Where a client on this machine reaches a server that listens on `host`."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
