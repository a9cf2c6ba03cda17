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

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\].*?(?:\x07|\x1b\\))")
_LINE = re.compile(r"(?<![\d.])(\d+)\.(\d{2})\.(\d{3})\.(\d{3})\s+[DIWE]\s+(.*)")
_TASK = re.compile(r"\| task \d+ \|")
_OF_TASK = re.compile(r"slot .*?\| task (\d+) \|\s*(.*)")
_TIMINGS = re.compile(
    r"(prompt )?eval time = +([\d.]+) ms / +(\d+) tokens "
    r"\(.*, +(?:([\d.]+)|-?nan|-?inf) tokens per second\)"
)
_MARK = re.compile(r"(?:n_decoded|n_gen) = +(\d+), tg = +([\d.]+) t/s")
_PROGRESS = re.compile(r"prompt processing, n_tokens = +\d+, progress = ([\d.]+), ")
_WHOLE = re.compile(r"(?:new prompt, |need to evaluate ).*_tokens(?:\(\))? = (\d+)")
_DRAFTS = re.compile(r"draft acceptance(?: rate)? = [\d.]+ \( *(\d+) accepted / +(\d+) generated\)")
_RELEASE = re.compile(r"stop processing: n_tokens = (\d+), truncated = ([01])")
_FIGURES = re.compile(  # how statements with figures begin; a debug line begins almost like one
    r"(?:prompt )?eval time|(?:n_decoded|n_gen) =(?! *\d+, n_)"
    r"|prompt processing, |draft acceptance|stop processing"
)
_CLOSED = re.compile(r"(?: tokens| tokens per second\)| t/s| truncated = [01])$")
_ENCODE = re.compile(r"encoding mtmd batch from idx = \d+, n_chunks = (\d+)")
_CANCEL = re.compile(r"srv .*: cancel task, id_task = (\d+)")
_READY = re.compile(r"srv .*: (?:model loaded|(?:server is )?listening on )")
_SLOTS = re.compile(r"srv .*n_slots = (\d+)")
_SLOT_CONTEXT = re.compile(r"slot .*new slot, n_ctx = (\d+)")


@dataclass
class ServerLog:
    """One server run: when it was ready (s after its start), its slots and its tasks by id.

    `damaged` are the numbers of lines that are cut or that say half of what such a line says.
    """

    weights_s: float | None = None
    ready_s: float | None = None
    slots: int | None = None
    context_tokens: int | None = None
    tasks: dict[int, Task] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list, compare=False)
    _waiting: list[float] = field(default_factory=list)
    _encoding: Encode | None = None

    @property
    def finished(self) -> list[Task]:
        """Tasks whose final timings are there, in order of their start in the log."""
        return [task for task in self.tasks.values() if task.state == "finished"]

    def take(self, time_s: float, said: str, line: int) -> None:
        """Note one statement and the number of its line."""
        if found := _OF_TASK.match(said):
            task = self.tasks.setdefault(int(found[1]), Task(int(found[1]), time_s))
            task.last_seen_s = time_s
            self._of_task(task, time_s, found[2], line)
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

    def _of_task(self, task: Task, time_s: float, said: str, line: int) -> None:
        if found := _MARK.match(said):
            task.marks.append((time_s, int(found[1])))
            task.decode_tps_logged, task.decode_line = float(found[2]), line
        elif said.startswith("processing task"):
            task.launched_s = time_s
            if len(self._waiting) == 1:  # with several waiting, nothing says whose turn it is
                task.arrived_s = self._waiting[0]
            self._waiting.clear()
        elif found := _ENCODE.match(said):
            self._close(time_s, with_prefill=True)
            self._encoding = Encode(time_s, int(found[1]))
            task.encodes.append(self._encoding)
        elif found := _PROGRESS.match(said):
            self._close(time_s, with_prefill=True)
            task.prompt_read, task.prompt_line = float(found[1]), line
        elif found := _WHOLE.match(said):
            task.stated_tokens = int(found[1])
        elif (found := _TIMINGS.match(said)) and found[1]:
            task.prompt_ms, task.prompt_tokens = float(found[2]), int(found[3])
            task.prompt_line = line
        elif found:
            task.decode_ms, task.decode_tokens = float(found[2]), int(found[3])
            task.decode_tps_logged = float(found[4]) if found[4] else None
            task.decode_line = line
        elif found := _DRAFTS.match(said):
            task.drafts_accepted, task.drafts = int(found[1]), int(found[2])
        elif said.startswith("slot context shift"):
            task.truncated = True
        elif found := _RELEASE.match(said):
            task.end_tokens, task.truncated = int(found[1]), found[2] == "1"
        elif _FIGURES.match(said):
            self.damaged.append(line)

    def _close(self, time_s: float, with_prefill: bool) -> None:
        if self._encoding:
            self._encoding.end_s, self._encoding.with_prefill = time_s, with_prefill
            self._encoding = None


def parse(lines: Iterable[str]) -> ServerLog:
    """The last server run in the lines of a log; other lines are passed over.

    Colours and what a container writes before a line are undone. A cut line is left out and
    counted: a number in it may have lost digits. Lines count from 1, as `sed -n 7p` does.
    """
    log = ServerLog()
    for number, given in enumerate(lines, 1):
        line = _ESCAPES.sub("", given).rstrip()
        found = _LINE.search(line)
        cut = not given.endswith("\n") and not _CLOSED.search(line)
        if cut or (not found and _TASK.search(line)):
            log.damaged.append(number)
        elif found:
            if "loading model '" in found[5]:
                log = ServerLog()
            minutes, seconds, thousandths, millionths = (int(found[n]) for n in range(1, 5))
            time_s = minutes * 60 + seconds + thousandths / 1e3 + millionths / 1e6
            log.take(time_s, found[5], number)
    return log


def read_log(path: Path) -> ServerLog:
    """The last server run in a log file; raises KeyelabError when there is none in it."""
    if not path.is_file():
        raise KeyelabError(
            f"expected a llama-server log at {shown(path)}, found none",
            "set perf_analysis.log, or run 06_serve first",
        )
    with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        log = parse(stream)
    if log == ServerLog():
        raise KeyelabError(
            f"expected llama-server's lines in {shown(path)}, found none",
            "set perf_analysis.log to the server's log (06_serve names it)",
        )
    return log
