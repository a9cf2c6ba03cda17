"""TCP ports: one to listen on, and who listens on a taken one."""

from __future__ import annotations

import contextlib
import socket

import psutil

from keyelab.errors import KeyelabError
from keyelab.serving import occupant


def claim(host: str, port: int, build: str = "") -> int:
    """`port`, or any for 0, that a server can listen on now.

    Raises KeyelabError with its holder when it is taken; `build` is what the holder's is held
    against when it is a llama-server.
    """
    try:
        return _listen(host, port)
    except OSError as error:
        pids = listeners(port, host)
        who, remedy = f"{error.strerror}", "set serve.host to an address of this machine"
        if pids:
            who, remedy = occupant.of(host, port, next(iter(pids)), build)
        raise KeyelabError(
            f"expected TCP port {port} on {host} to be free, found {who}",
            f"{remedy}, or set serve.port to 0",
        ) from None


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on the port."""
    try:
        return _listen(host, port) == port
    except OSError:
        return False


def listeners(port: int, host: str = "") -> set[int | None]:
    """The pids that listen on a port, None for a process of another user.

    With `host` only those that its clients can reach: on its address or on every one.
    """
    reached = {"0.0.0.0", "::"}
    with contextlib.suppress(OSError):
        reached |= {str(found[4][0]) for found in socket.getaddrinfo(host or None, port)}
    return {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
        and (host in ("", "0.0.0.0", "::") or connection.laddr.ip in reached)
    }


def strangers(host: str, port: int, pid: int) -> set[int | None]:
    """Those of `listeners` that are neither this process nor below it.

    Servers with SO_REUSEPORT (llama-server's --reuse-port) share a port, and the kernel gives each
    client to either.
    """
    own = {pid}
    with contextlib.suppress(psutil.Error):
        own |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return listeners(port, host) - own


def _listen(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with SO_REUSEADDR: connections of an ended server linger
    with socket.create_server((host, port), family=family) as listening:
        return int(listening.getsockname()[1])
