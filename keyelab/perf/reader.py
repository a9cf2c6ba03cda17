"""llama-server's log: one line a statement, `minutes.seconds.ms.µs LEVEL statement`.

`1.53.597.137 I` is 113.597137 s after the server's start (llama.cpp, common/log.cpp), never hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.perf.task import Encode, Task

ARTICLE_LOG = Path(__file__).parent / "data" / "article_server.log"

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"(?<![\d.])(\d+)\.(\d{2})\.(\d{3})\.(\d{3})\s+[DIWE]\s+(.*)")
_OF_TASK = re.compile(r"slot .*?\| task (\d+) \|\s*(.*)")
_PROMPT = re.compile(r"prompt eval time = +([\d.]+) ms / +(\d+) tokens")
_DECODE = re.compile(
    r"eval time = +([\d.]+) ms / +(\d+) tokens \((?:.*, +([\d.]+) tokens per second)?"
)
_MARK = re.compile(r"(?:n_decoded|n_gen) = +(\d+), tg = ")
_RELEASE = re.compile(r"stop processing: n_tokens = (\d+), truncated = ([01])")
_ENCODE = re.compile(r"encoding mtmd batch from idx = \d+, n_chunks = (\d+)")
_CANCEL = re.compile(r"srv .*: cancel task, id_task = (\d+)")
_READY = re.compile(r"srv .*: (?:model loaded|(?:server is )?listening on )")
_SLOTS = re.compile(r"srv .*n_slots = (\d+)")
_SLOT_CONTEXT = re.compile(r"slot .*new slot, n_ctx = (\d+)")


@dataclass
class ServerLog:
    """One server run: when it was ready (s after its start), its slots and its tasks by id."""

    weights_s: float | None = None
    ready_s: float | None = None
    slots: int | None = None
    context_tokens: int | None = None
    tasks: dict[int, Task] = field(default_factory=dict)
    _waiting: list[float] = field(default_factory=list)
    _encoding: Encode | None = None

    @property
    def finished(self) -> list[Task]:
        """Tasks whose final timings are there, in order of their start in the log."""
        return [task for task in self.tasks.values() if task.state == "finished"]

    def take(self, time_s: float, said: str) -> None:
        """Note one statement."""
        if found := _OF_TASK.match(said):
            task = self.tasks.setdefault(int(found[1]), Task(int(found[1])))
            task.last_seen_s = time_s
            self._of_task(task, time_s, found[2])
        elif "warming up the model" in said:
            self.weights_s = time_s
        elif found := _SLOT_CONTEXT.match(said):
            self.context_tokens = int(found[1])
        elif found := _SLOTS.match(said):
            self.slots = int(found[1])
        elif _READY.match(said):
            self.ready_s = time_s if self.ready_s is None else self.ready_s
        elif "chat format:" in said.lower():
            self._waiting.append(time_s)
        elif "decoding image batch" in said:
            self._close(time_s, with_prefill=False)
        elif (found := _CANCEL.match(said)) and int(found[1]) in self.tasks:
            self.tasks[int(found[1])].cancelled = True

    def _of_task(self, task: Task, time_s: float, said: str) -> None:
        if said.startswith("processing task"):
            task.launched_s = time_s
            if len(self._waiting) == 1:  # with several waiting, nothing says whose turn it is
                task.arrived_s = self._waiting[0]
            self._waiting.clear()
        elif found := _ENCODE.match(said):
            self._close(time_s, with_prefill=True)
            self._encoding = Encode(time_s, int(found[1]))
            task.encodes.append(self._encoding)
        elif said.startswith("prompt processing, "):
            self._close(time_s, with_prefill=True)
        elif found := _MARK.match(said):
            task.marks.append((time_s, int(found[1])))
        elif found := _PROMPT.match(said):
            task.prompt_ms, task.prompt_tokens = float(found[1]), int(found[2])
        elif found := _DECODE.match(said):
            task.decode_ms, task.decode_tokens = float(found[1]), int(found[2])
            task.decode_tps_logged = float(found[3]) if found[3] else None
        elif found := _RELEASE.match(said):
            task.end_tokens, task.truncated = int(found[1]), found[2] == "1"

    def _close(self, time_s: float, with_prefill: bool) -> None:
        if self._encoding:
            self._encoding.end_s, self._encoding.with_prefill = time_s, with_prefill
            self._encoding = None


def parse(lines: Iterable[str]) -> ServerLog:
    """The last server run in the lines of a log; other lines are passed over.

    Colours and what a container writes before a line are undone. A last line without its end is
    left out: a number in it may have lost digits.
    """
    log = ServerLog()
    for line in lines:
        found = _LINE.search(_ANSI.sub("", line)) if line.endswith("\n") else None
        if not found:
            continue
        if "loading model '" in found[5]:
            log = ServerLog()
        minutes, seconds, thousandths, millionths = (int(found[n]) for n in range(1, 5))
        log.take(minutes * 60 + seconds + thousandths / 1e3 + millionths / 1e6, found[5].strip())
    return log


def read_log(path: Path) -> ServerLog:
    """The last server run in a log file; raises KeyelabError when there is none in it."""
    if not path.is_file():
        raise KeyelabError(
            f"expected a llama-server log at {shown(path)}, found none",
            "set perf_analysis.log, or run 06_serve first",
        )
    with path.open(encoding="utf-8", errors="replace") as stream:
        log = parse(stream)
    if log == ServerLog():
        raise KeyelabError(
            f"expected llama-server's lines in {shown(path)}, found none",
            "set perf_analysis.log to the server's log (06_serve names it)",
        )
    return log
