"""The servers of phase 06."""

from __future__ import annotations

from keyelab.facts.base import Facts


class ServerFact(Facts):
    """A server that answers, and what its log says of it (MiB by buffer name; None unknown).

    `api_key_file` names the file of its key ('': LLAMA_API_KEY, or none); no key is a fact.
    `devices` are llama.cpp's accelerators that hold weights or states, `graph_splits` the parts
    of its graph: one a device, and one on the CPU.
    """

    url: str
    pid: int
    state_file: str
    log: str
    alias: str
    build_info: str
    model_path: str
    context_tokens: int | None
    slots: int | None
    ready_s: float
    command: str
    api_key_file: str = ""
    flash_attention: bool | None = None
    devices: list[str] = []
    buffers_mib: dict[str, float] = {}
    projector_backend: str | None = None
    graph_splits: int | None = None


class ServeFacts(ServerFact):
    """06_serve: the first server, and all of them."""

    servers: list[ServerFact] = []
