"""Who can reach a server: this machine only, or others, who then need an API key."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyelab import apikey
from keyelab.checks import Check, check
from keyelab.errors import UsageError
from keyelab.params import Serve

if TYPE_CHECKING:  # command calls require_key
    from keyelab.serving.command import ServerPlan
    from keyelab.serving.observed import Observed
    from keyelab.serving.state import ServerState


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_key(params: Serve) -> None:
    """Raise UsageError for a key that cannot be used, or none on an address that others reach."""
    if not apikey.read(params.api_key_file) and not is_loopback(params.host):
        raise UsageError(
            f"expected an API key for serve.host={params.host}, which others can reach, found "
            "none: whoever does could use the server and read the prompts it holds",
            "set serve.host to 127.0.0.1 and come through ssh -L, or make a key: (umask 077; "
            "openssl rand -hex 32 > ~/keyelab.key), then --set serve.api_key_file=~/keyelab.key",
        )


def said(plan: ServerPlan, servers: Sequence[ServerState], seen: Observed) -> str:
    """What others can reach of servers that were started alike, in a few sentences."""
    ports = ", ".join(str(one.port) for one in servers)
    where = f"{plan.params.host}, port {ports}"
    if is_loopback(plan.params.host):
        who = "with the API key" if _keyed(plan) else "and by web pages in a browser that runs here"
        return f"{where}: reached from this machine only, by every user of it, {who}."
    more = ["/props (file names, chat template)"]
    more += [f"/{name}" for name in ("slots", "metrics") if seen.props.get(f"endpoint_{name}")]
    return (
        f"**{where}, is open to everyone who reaches this machine.** Without the key /health and "
        f"/v1/models answer; with it chat, completions, {', '.join(more)}. All of it is plain "
        "HTTP: who can listen on the way reads the questions, the answers and the key. A proxy "
        f"with TLS prevents that, or `serve.host: 127.0.0.1` and, from elsewhere, `ssh -L "
        f"{servers[0].port}:127.0.0.1:{servers[0].port} HOST`."
    )


def verdict(plan: ServerPlan, seen: Observed) -> Check:
    """Loopback, or a key; a key must be asked for in truth."""
    keyed = _keyed(plan)
    local = is_loopback(plan.params.host)
    refuses = None if seen.keyless is None else seen.keyless == 401
    how = {True: "asks for its key", False: "answers without its key", None: "unknown"}
    return check(
        "exposure",
        refuses if keyed else local,
        expected="asks for its API key" if keyed else "this machine only, or an API key",
        found=f"{plan.params.host}, {how[refuses] if keyed else 'without an API key'}",
        remedy="keyelab stop, then make a key as serve.api_key_file says and start it again",
    )


def _keyed(plan: ServerPlan) -> bool:
    return bool(plan.params.api_key_file) or apikey.VARIABLE in plan.env
