"""Records folded into tasks: what is said about each request, and what cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.perf.log import Record, read_log
from keyelab.perf.tasks import Encode, Mark, Task

_X = r"(\d+(?:\.\d+)?|-?inf|-?nan)"
_TAIL = rf" = {_X} ms / (\d+) tokens \( ?{_X} ms per token, {_X} tokens per second\)"
_PROMPT = re.compile("prompt eval time" + _TAIL)
_DECODE = re.compile("(?<!prompt )eval time" + _TAIL)
_TOTAL = re.compile(rf"total time = {_X} ms / (\d+) tokens")
_MARK = re.compile(rf"(n_decoded|n_gen) = (\d+), tg = {_X} t/s(?:, tg_3s = {_X} t/s)?")
_PROGRESS = re.compile(rf"prompt processing, n_tokens = (\d+), progress = {_X}, t = {_X} s / ")
_RELEASE = re.compile(r"stop processing: n_(?:tokens|past) = (\d+), truncated = ([01])")
_DRAFT = re.compile(rf"draft acceptance(?: rate)? = {_X} \( ?(\d+) accepted / (\d+) generated\)")
_PROMPT_SIZE = re.compile(r"new prompt, .*(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_ENCODE = re.compile(r"encoding mtmd batch from idx = (\d+), n_chunks = (\d+)")
_IMAGE_BATCH = re.compile(r"decoding image batch \d+/\d+, n_tokens_batch = (\d+)")
_CANCEL = re.compile(r"cancel task, id_task = (\d+)")
_CACHE_UPDATE = re.compile(rf"prompt cache update took {_X} ms")
_SLOT_CONTEXT = re.compile(r"n_ctx(?:_slot)? = (\d+)")
_TIMING = ("prompt eval time", "eval time", "total time", "n_decoded", "n_gen", "prompt processing")


@dataclass
class Summary:
    """A log of one server run: when it was ready (s after its start), and its tasks by id.

    `damaged` are the numbers of timing lines that could not be read; `runs` counts the server
    starts in the file: only the last one is kept.
    """

    records: int = 0
    runs: int = 1
    weights_s: float | None = None
    ready_s: float | None = None
    slots: int | None = None
    context_tokens: int | None = None
    cache_updates_ms: list[float] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    tasks: dict[int, Task] = field(default_factory=dict)

    @property
    def finished(self) -> list[Task]:
        """Tasks whose final timings are there, in order of their start in the log."""
        return [task for task in self.tasks.values() if task.state == "finished"]


def read_summary(path: Path) -> Summary:
    """The tasks of a log file; raises KeyelabError when it is no llama-server log."""
    summary = summarize(read_log(path))
    if not summary.records:
        raise KeyelabError(
            f"expected llama-server's lines in {shown(path)}, found none",
            "set perf_analysis.log to the server's log (06_serve names it)",
        )
    return summary


def summarize(records: Iterable[Record]) -> Summary:
    """Fold records into tasks. Never raises for a damaged log and never makes up a task."""
    fold = _Fold()
    for record in records:
        fold.take(record)
    for task in fold.cancelled & set(fold.summary.tasks):
        fold.summary.tasks[task].cancelled = True
    return fold.summary


class _Fold:
    def __init__(self) -> None:
        self.summary = Summary()
        self.cancelled: set[int] = set()
        self.pending: list[float] = []
        self.encoding: Encode | None = None

    def _restart(self) -> None:
        """Another server starts in the same file: its task numbers begin again."""
        before = self.summary
        self.summary = Summary(records=before.records, runs=before.runs + 1)
        self.cancelled.clear()
        self.pending.clear()
        self.encoding = None

    def take(self, record: Record) -> None:
        self.summary.records += 1
        if record.source == "slot" and record.task is not None and record.task >= 0:
            self._of_task(record)
        elif record.source == "srv":
            self._of_server(record)
        elif "warming up the model" in record.message:
            self.summary.weights_s = record.time_s
        elif found := _IMAGE_BATCH.search(record.message):
            self._image_batch(record, int(found[1]))
        elif record.source == "slot" and record.function == "load_model":
            context = _SLOT_CONTEXT.search(record.message)
            if context and not record.cut:
                self.summary.context_tokens = int(context[1])

    def _of_server(self, record: Record) -> None:
        said = record.message
        if record.function == "load_model" and said.startswith("loading model '"):
            if self.summary.tasks:
                self._restart()
        elif said == "model loaded" or re.match(r"(?:server is )?listening on ", said):
            if self.summary.ready_s is None:
                self.summary.ready_s = record.time_s
        elif said.lower().startswith("chat format:") and record.time_s is not None:
            self.pending.append(record.time_s)
        elif (found := _CANCEL.search(said)) and not record.cut:
            self.cancelled.add(int(found[1]))
        elif found := _CACHE_UPDATE.search(said):
            self.summary.cache_updates_ms.append(float(found[1]))
        elif (found := re.search(r"n_slots = (\d+)", said)) and not record.cut:
            self.summary.slots = int(found[1])

    def _of_task(self, record: Record) -> None:
        assert record.task is not None
        assert record.slot is not None
        known = self.summary.tasks
        task = known.setdefault(record.task, Task(record.task, record.slot, record.line))
        task.last_seen_s = record.time_s
        said = record.message
        if said.startswith("processing task"):
            task.launched_s = record.time_s
            task.arrived_s = self.pending[0] if len(self.pending) == 1 else None
            self.pending.clear()  # with several waiting, nothing says whose turn it was
        elif (found := _ENCODE.search(said)) and not record.cut:
            self._close(record.time_s, int(found[1]))
            self.encoding = Encode(record.time_s, int(found[1]), int(found[2]))
            task.encodes.append(self.encoding)
        elif (found := _PROMPT_SIZE.search(said)) and not record.cut:
            task.stated_prompt_tokens = int(found[1])
        elif "need to evaluate at least 1 token" in said:
            task.one_token_evaluated = True
        elif found := _RELEASE.search(said):
            task.released_s = record.time_s
            task.end_tokens, task.truncated = int(found[1]), found[2] == "1"
        elif found := _DRAFT.search(said):
            task.draft_accepted, task.draft_generated = int(found[2]), int(found[3])
        elif not self._timing(task, record) and said.startswith(_TIMING):
            self.summary.damaged.append(record.line)

    def _timing(self, task: Task, record: Record) -> bool:
        said = record.message
        if found := _MARK.search(said):
            mark = Mark(record.time_s, int(found[2]), _number(found[3]), _number(found[4]))
            task.marks.append(mark)
            task.counts_steps = found[1] == "n_gen"
            return True
        if found := _PROGRESS.search(said):
            self._close(record.time_s, int(found[1]))
            return True
        prompt, decode, total = (pattern.search(said) for pattern in (_PROMPT, _DECODE, _TOTAL))
        if prompt:
            task.prompt_ms, task.prompt_tokens = _number(prompt[1]), int(prompt[2])
        if decode:
            task.decode_ms, task.decode_tokens = _number(decode[1]), int(decode[2])
            task.decode_tps_logged = _number(decode[4])
        if total:
            task.total_ms = _number(total[1])
        return bool(prompt or decode or total)

    def _image_batch(self, record: Record, tokens: int) -> None:
        encode = self.encoding
        if encode is None or record.cut:
            return
        encode.tokens = (encode.tokens or 0) + tokens
        if encode.end_s is None:
            encode.end_s = record.time_s

    def _close(self, time_s: float | None, index: int) -> None:
        """The open encode ends where the next statement of the prompt stands."""
        encode, self.encoding = self.encoding, None
        if encode is None or encode.end_s is not None:
            return
        encode.end_s, encode.with_prefill = time_s, True
        encode.tokens = index - encode.first_index if index > encode.first_index else None


def _number(text: str | None) -> float | None:
    """A printed number; inf and nan are no measurement."""
    if text is None or text.lstrip("-") in ("inf", "nan"):
        return None
    return float(text)
