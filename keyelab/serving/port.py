"""TCP ports: one to listen on, and who listens on a taken one."""

from __future__ import annotations

import socket

import psutil

from keyelab.errors import KeyelabError


def claim(host: str, port: int) -> int:
    """`port`, or any for 0, that a server can listen on now.

    Raises KeyelabError with its holder when it is taken.
    """
    try:
        return _listen(host, port)
    except OSError as error:
        pid = listener(port)
        who = f"{psutil.Process(pid).name()} (pid {pid})" if pid else f"{error.strerror}"
        raise KeyelabError(
            f"expected TCP port {port} on {host} to be free, found {who}",
            f"stop it (keyelab stop --port {port} when keyelab status lists it), or set "
            "serve.port to 0",
        ) from None


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on the port."""
    try:
        return _listen(host, port) == port
    except OSError:
        return False


def listener(port: int) -> int | None:
    """The pid that listens on a port; None when nobody does, or a process of another user."""
    for connection in psutil.net_connections("tcp"):
        address = connection.laddr
        if connection.status == psutil.CONN_LISTEN and address and address.port == port:
            return connection.pid
    return None


def _listen(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with SO_REUSEADDR: connections of an ended server linger
    with socket.create_server((host, port), family=family) as listening:
        return int(listening.getsockname()[1])
