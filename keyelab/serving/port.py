"""TCP ports: a free one, and who holds a taken one."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

import psutil

from keyelab.errors import KeyelabError


@dataclass(frozen=True)
class Holder:
    """A process that listens on a port; None where this user may not see it."""

    pid: int | None
    name: str | None

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another user"
        return f"{self.name or 'a process'} (pid {self.pid})"


def free(host: str) -> int:
    """A port that is free on `host` now."""
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket(_family(host)) as probe:
        # connections of an ended server linger; a listening socket still refuses the bind
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def holder(port: int) -> Holder | None:
    """Who listens on a port, or None when nobody does."""
    for connection in psutil.net_connections("tcp"):
        address = connection.laddr
        if connection.status != psutil.CONN_LISTEN or not address or address.port != port:
            continue
        name = None
        with contextlib.suppress(psutil.Error):
            name = psutil.Process(connection.pid).name() if connection.pid else None
        return Holder(connection.pid, name)
    return None


def require_free(host: str, port: int, ours: int | None = None) -> None:
    """Raise KeyelabError with the holder when a port is taken; `ours` is keyelab's pid on it."""
    if is_free(host, port):
        return
    who = holder(port)
    if who is not None and ours is not None and who.pid == ours:
        raise KeyelabError(
            f"expected TCP port {port} to be free, found another server of keyelab there, "
            f"started from other parameters or files (pid {ours})",
            f"keyelab stop --port {port}, or set serve.port to 0",
        )
    raise KeyelabError(
        f"expected TCP port {port} on {host} to be free, found {who or 'it cannot be bound'}",
        f"see who holds it: ss -ltnp 'sport = :{port}'; or set serve.port to 0",
    )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
