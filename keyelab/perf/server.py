"""One server run as its log tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Event(NamedTuple):
    """Something beside the tasks' own figures; None where it has no such figure.

    `kind` is one of: cache_update, prompt_saved, idle_slot_saved, cache_unusable, checkpoint,
    context_shift, kv_full, cancelled, sleep.
    """

    time_s: float | None
    line: int
    kind: str
    slot: int | None = None
    task: int | None = None
    ms: float | None = None
    mib: float | None = None
    tokens: int | None = None


@dataclass
class ServerLog:
    """One server run: stamps of its start (s after it), and its slots.

    A stamp is None where the log lacks the line: `loading_s` the model is being opened,
    `tensors_s` its weights are being read, `weights_s` they and the context are there (the warm-up
    begins), `projector_s` the projector is being read, `multimodal_s` it is there, `slots_s` slots
    are being made, `ready_s` model loaded, `listening_s` requests are taken. `line` is the first
    one of it, `source` the container or child process, `damaged` the numbers of lines that are cut
    or that say half of what such a line says.
    """

    loading_s: float | None = None
    tensors_s: float | None = None
    weights_s: float | None = None
    projector_s: float | None = None
    multimodal_s: float | None = None
    slots_s: float | None = None
    ready_s: float | None = None
    listening_s: float | None = None
    last_s: float | None = None
    slots: int | None = None
    context_tokens: int | None = None
    build: int | None = None
    graph_splits: int | None = None
    projector_mib: float | None = None
    damaged: list[int] = field(default_factory=list, compare=False)
    line: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)
