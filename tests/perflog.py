"""The tables and the tasks of a log that a test writes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keyelab.perf import explain
from keyelab.perf.reader import not_a_log, opened, read
from keyelab.perf.server import Event, ServerLog
from keyelab.perf.tables import Collector, Tables
from keyelab.perf.task import Task

DATA = Path(__file__).parent / "data" / "perf"


def tables_of(log: Path | Iterable[str]) -> Tables:
    """The rows of the last server run of a file or of lines."""
    content = log.read_bytes() if isinstance(log, Path) else "".join(log).encode()
    collector = Collector()
    read(io.BytesIO(content), collector)
    return explain.last(collector.tables())


@dataclass
class Log(ServerLog):
    """A server run and its tasks by id, in order of their start in the log."""

    tasks: dict[int, Task] = field(default_factory=dict)

    @property
    def finished(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.state == "finished"]


class _Keep:
    """Keeps the server run that begins last."""

    def __init__(self) -> None:
        self.begin(ServerLog())

    def begin(self, server: ServerLog) -> None:
        self.server, self.tasks = server, dict[int, Task]()

    def task(self, server: ServerLog, task: Task) -> None:
        known = self.tasks.get(task.id)
        if server is self.server and (known is None or known.state != "finished"):
            self.tasks[task.id] = task

    def event(self, server: ServerLog, event: Event) -> None:
        pass

    def end(self, server: ServerLog) -> None:
        pass

    def log(self) -> Log:
        in_order = sorted(self.tasks.items(), key=lambda item: item[1].line or 0)
        return Log(**vars(self.server), tasks=dict(in_order))


def parse(lines: Iterable[str | bytes]) -> Log:
    """The last server run in the lines of a log."""
    content = (
        line if isinstance(line, bytes) else line.encode("utf-8", "replace") for line in lines
    )
    keep = _Keep()
    read(io.BytesIO(b"".join(content)), keep)
    return keep.log()


def read_log(path: Path) -> Log:
    """The last server run in a log file; raises KeyelabError when there is none in it."""
    keep = _Keep()
    with opened(path) as stream:
        read(stream, keep)
    if keep.log() == Log(last_s=keep.server.last_s):
        raise not_a_log(path)
    return keep.log()
