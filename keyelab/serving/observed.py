"""What a running server shows: its endpoints, its log, its process, its cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from keyelab.diagnose import Report, diagnose
from keyelab.files import located
from keyelab.serving import memory, port, probe, ready, startup
from keyelab.serving.startup import Startup
from keyelab.serving.state import ServerState

_LIBRARIES = ("libggml", "libllama", "libmtmd")


@dataclass(frozen=True)
class Observed:
    """What a server says of itself and what the system says of it; None is unknown.

    `mapped` are its llama.cpp libraries and GGUF files in memory; `keyless` is the HTTP status of
    /props without a key, `proxied` what a client gets that follows the environment's proxies (''
    is the server); `launches` counts log lines of kernels with too many threads; `card_bytes` is
    what each card holds more than before the start.
    """

    props: Mapping[str, Any] = field(default_factory=dict)
    model_names: str | None = None
    listeners: frozenset[int | None] = frozenset()
    strangers: frozenset[int | None] = frozenset()
    report: Report = field(default_factory=lambda: diagnose(""))
    start: Startup = field(default_factory=Startup)
    launches: int | None = None
    mapped: frozenset[str] | None = None
    keyless: int | None = None
    proxied: str | None = None
    card_bytes: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def context_tokens(self) -> int | None:
        """Context of one slot in tokens, from /props."""
        return (self.props.get("default_generation_settings") or {}).get("n_ctx")


def look(state: ServerState, env: Mapping[str, str] | None = None) -> Observed:
    """Ask /props and /v1/models, the port's owner, the log, the process and its cards."""
    models = probe.get(state.url, "/v1/models", state.api_key_file)
    start, launches = _read(located(state.log))
    return Observed(
        props=probe.get(state.url, "/props", state.api_key_file) or {},
        model_names=" ".join(entry["id"] for entry in models["data"]) if models else None,
        listeners=frozenset(port.listeners(state.port, state.host)),
        strangers=frozenset(port.strangers(state.host, state.port, state.pid)),
        report=ready.read_log(state),
        start=start,
        launches=launches,
        mapped=_mapped(state.pid),
        keyless=probe.ask(state.url, "/props").status,
        proxied=probe.proxied(state.url),
        card_bytes=_grown(state, env),
    )


def _read(log: Path) -> tuple[Startup, int | None]:
    """What the log says of the start, and its kernel launches above their bound."""
    if not log.is_file():
        return Startup(), None
    with log.open(encoding="utf-8", errors="replace") as lines:
        start = startup.read(lines)
        lines.seek(0)
        return start, sum(line.count("Launch params (") for line in lines)


def _mapped(pid: int) -> frozenset[str] | None:
    try:
        paths = {entry.path for entry in psutil.Process(pid).memory_maps()}
    except psutil.Error:
        return None
    names = {path: path.rpartition("/")[2] for path in paths}
    ours = {p for p, name in names.items() if name.startswith(_LIBRARIES) or ".gguf" in name}
    return frozenset(ours) or None  # nothing of llama.cpp: a static build, or no llama-server


def _grown(state: ServerState, env: Mapping[str, str] | None) -> dict[str, int | None]:
    now = memory.used(state.cards, env) if state.cards else {}
    before = {card: state.before_bytes.get(card) for card in now}
    return {
        card: None if held is None or (then := before[card]) is None else held - then
        for card, held in now.items()
    }
