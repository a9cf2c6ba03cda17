"""Logs as five tidy tables: servers, tasks, samples, chunks and events.

Units are in the column names. A value that the log does not hold is NA or NaN, never 0. `server`
numbers the server runs in the order of the files and their lines, from 0; `line` is the line of
the file. Times `_s` are seconds since that server's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from keyelab.files import redact, shown
from keyelab.perf.columns import Columns
from keyelab.perf.reader import not_a_log, opened, read
from keyelab.perf.server import Event, ServerLog
from keyelab.perf.task import Task, beside

_STAMPS = {f.name: float for f in fields(ServerLog) if f.name.endswith("_s") and f.name != "last_s"}
SERVERS: dict[str, type] = {
    "server": int, "file": str, "line": int, "source": str, "build": int, "slots": int,
    "context_tokens": int, "graph_splits": int, "projector_mib": float, **_STAMPS,
    "last_s": float, "damaged_lines": int,
}  # fmt: skip
TASKS: dict[str, type] = {
    "server": int, "task": int, "slot": int, "line": int, "state": str,
    "first_s": float, "arrived_s": float, "launched_s": float, "decode_start_s": float,
    "last_seen_s": float, "queue_s": float,
    "context_tokens": int, "cached_tokens": int, "prompt_tokens": int,
    "prompt_ms": float, "prefill_tps": float, "images": int, "decode_tokens": int,
    "decode_ms": float, "decode_tps": float, "decode_tps_logged": float, "rate_basis": str,
    "depth_tokens": float, "drafts": int, "drafts_accepted": int, "graphs_reused": int,
    "truncated": bool,
}  # fmt: skip
SAMPLES: dict[str, type] = {
    "server": int, "task": int, "time_s": float, "tokens": int, "window_tokens": int,
    "depth_tokens": float, "ms_per_token": float, "tps_logged": float, "window_tps_logged": float,
}  # fmt: skip
CHUNKS: dict[str, type] = {
    "server": int, "task": int, "line": int, "start_s": float, "index_tokens": int, "images": int,
    "tokens": int, "tokens_basis": str, "depth_tokens": float, "encode_ms": float,
    "prefill_ms": float, "total_ms": float,
}  # fmt: skip
EVENTS: dict[str, type] = {
    "server": int, "time_s": float, "line": int, "kind": str, "slot": int, "task": int,
    "ms": float, "mib": float, "tokens": int,
}  # fmt: skip


@dataclass
class Tables:
    """Pandas frames.

    servers   one row a server run: file, first line, build, slots, context of a slot, the stamps of
              `ServerLog`, last stamp of the log, damaged lines
    tasks     one row a request, as `Task` defines the figures. `decode_tps` is (n - 1) / t for
              every build, `rate_basis` what the printed rate was ("n/t" or "(n-1)/t"), `beside` how
              many other tasks ran during a part of its time
    samples   one row a progress line of decoding: `ms_per_token` of the `window_tokens` since the
              task's line before (missing on its first), `depth_tokens` the mean depth of them,
              `beside` the other tasks that ran in the window
    chunks    one row an encoding of images: its place in the prompt, tokens (`tokens_basis`:
              stated; spacing: to the next one, text between them included; assumed: like the
              others), depth after it, and ms of the vision tower, of the language model and of both
    events    what else the log tells, see `Event`; `task` of a cache_update is unknown
    """

    servers: Any
    tasks: Any
    samples: Any
    chunks: Any
    events: Any


class Collector:
    """A sink that fills the tables; holds no task longer than it runs."""

    def __init__(self) -> None:
        self._servers, self._tasks = Columns(SERVERS), Columns(TASKS)
        self._samples, self._chunks, self._events = map(Columns, (SAMPLES, CHUNKS, EVENTS))
        self._number = -1
        self._numbers: dict[int, int] = {}
        self.file = ""

    def begin(self, server: ServerLog) -> None:
        self._number += 1
        self._numbers[id(server)] = self._number

    def task(self, server: ServerLog, task: Task) -> None:
        number = self._numbers[id(server)]
        self._tasks.add(
            number, task.id, task.slot, task.line, task.state, task.first_seen_s,
            task.arrived_s, task.launched_s,
            task.decode_start_s, task.last_seen_s, task.queue_s, task.context_tokens,
            task.cached_tokens, task.prompt_tokens, task.prompt_ms, task.prefill_tps,
            task.images if task.encodes else None, task.written, task.decode_ms, task.decode_tps,
            task.decode_tps_logged, task.rate_basis, task.depth_tokens, task.drafts,
            task.drafts_accepted, task.graphs_reused, task.truncated,
        )  # fmt: skip
        for row in task.samples():
            self._samples.add(number, task.id, *row)
        for encode, tokens, basis in task.chunks():
            depth = None if encode.index is None or tokens is None else encode.index + tokens
            self._chunks.add(
                number, task.id, encode.line, encode.start_s, encode.index, encode.images, tokens,
                basis, depth, encode.encode_ms, encode.prefill_ms, encode.total_ms,
            )  # fmt: skip

    def event(self, server: ServerLog, event: Event) -> None:
        self._events.add(self._numbers[id(server)], *event)

    def end(self, server: ServerLog) -> None:
        self._servers.add(
            self._numbers.pop(id(server)), self.file, server.line, redact(server.source) or None,
            server.build, server.slots, server.context_tokens, server.graph_splits,
            server.projector_mib, *(getattr(server, name) for name in _STAMPS), server.last_s,
            len(server.damaged),
        )  # fmt: skip

    def tables(self) -> Tables:
        """The frames, sorted by server and line."""
        servers, tasks, samples, chunks, events = (
            columns.frame()
            for columns in (self._servers, self._tasks, self._samples, self._chunks, self._events)
        )
        tasks = tasks.sort_values(["server", "line"], kind="stable", ignore_index=True)
        tasks["beside"], samples["beside"] = _beside(tasks, samples)
        return Tables(
            servers.sort_values("server", ignore_index=True), tasks,
            samples.sort_values(["server", "task", "tokens"], kind="stable", ignore_index=True),
            chunks.sort_values(["server", "line"], kind="stable", ignore_index=True),
            events.sort_values(["server", "line"], kind="stable", ignore_index=True),
        )  # fmt: skip


def _beside(tasks: Any, samples: Any) -> tuple[Any, Any]:
    """For each task and each sample, how many other tasks ran at its time; NA without times.

    An unfinished task runs beyond the end of the log.
    """
    import pandas as pd

    start = tasks.launched_s.fillna(tasks.first_s)
    apart_s = max(tasks.last_seen_s.max(), samples.time_s.max(), 0.0) + 2  # of two server runs
    offset = tasks.server.astype("float64") * apart_s
    end = tasks.last_seen_s.where(
        (tasks.state != "unfinished") | tasks.last_seen_s.isna(), apart_s - 1
    )
    known = start.notna() & end.notna()
    spans = (start + offset)[known], (end + offset)[known]
    timed = samples.time_s.notna()
    width_s = (samples.window_tokens.astype("float64") * samples.ms_per_token / 1000).fillna(0)
    to = (samples.time_s + samples.server.astype("float64") * apart_s)[timed]
    found = [pd.Series(pd.NA, index=frame.index, dtype="Int64") for frame in (tasks, samples)]
    found[0][known] = beside(*spans, *spans) - 1
    found[1][timed] = beside(to - width_s[timed], to, *spans) - 1
    return found[0].clip(lower=0), found[1].clip(lower=0)


def read_tables(paths: Sequence[Path]) -> Tables:
    """The tables of log files; raises KeyelabError for one that holds nothing of a server."""
    collector = Collector()
    for path in paths:
        collector.file = redact(shown(path))
        before = collector._number
        with opened(path) as stream:
            read(stream, collector)
        if collector._number == before:
            raise not_a_log(path)
    return collector.tables()
