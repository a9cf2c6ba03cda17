"""A server run while its log is being read: each statement has a method of its kind's name.

What is kept is the running tasks, at most one a slot, and the requests that wait.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from keyelab.perf.server import Event, ServerLog
from keyelab.perf.task import Encode, Task

MANY = 10_000  # entries of a list that no healthy log makes so long
Values = tuple[bytes, ...]  # the numbers of a statement; None where an optional one is left out
Time = float | None


class Sink(Protocol):
    """Takes what a log tells, as soon as it is complete."""

    def begin(self, server: ServerLog) -> None: ...
    def task(self, server: ServerLog, task: Task) -> None: ...
    def event(self, server: ServerLog, event: Event) -> None: ...
    def end(self, server: ServerLog) -> None: ...


class Run:
    """Statements in, tasks and events out."""

    def __init__(self, sink: Sink, line: int, source: str) -> None:
        self.log = ServerLog(line=line, source=source)
        self.last_s: Time = None
        self._sink = sink
        self._running: dict[int, Task] = {}
        self.last: Task | None = None  # whom a line of a block is about
        self._encoding: Encode | None = None
        self._waiting: deque[Time] = deque(maxlen=MANY)
        self._never_run: deque[int] = deque(maxlen=MANY)
        self._newest = -1
        self._free_s: Time = None
        self._updating = self._sliced = False
        self._saving: Event | None = None
        sink.begin(self.log)

    def close(self) -> None:
        """The log ends: tasks that still run are unfinished."""
        for task in self._running.values():
            self._end(task)
        self._end_save(None)
        self.log.last_s = self.last_s
        self._sink.end(self.log)

    def damage(self, line: int) -> None:
        """A line is cut, or says half of what such a line says."""
        if len(self.log.damaged) < MANY and self.log.damaged[-1:] != [line]:
            self.log.damaged.append(line)

    def of(self, slot: int, number: int, time_s: Time, line: int) -> Task:
        """The task that a statement is about; another one's statement ends the slot's last."""
        task = self._running.get(slot)
        if task is None or (task.id != number and number >= 0):
            if task is not None:
                self._end(task)
            task = self._running[slot] = Task(number, time_s, slot=slot, line=line)
        task.last_seen_s = time_s
        self.last = task
        return task

    def runs(self, slot: int) -> bool:
        """Whether a task is known to run in the slot."""
        return slot in self._running

    @property
    def worked(self) -> bool:
        """Whether the server was ready."""
        log = self.log
        return (log.ready_s, log.listening_s, self.last) != (None, None, None)

    def mark(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        tps = number(v[1])
        task.decode_tps_logged = tps
        if tps is not None:
            task.marks.append((time_s, int(v[0]), tps, number(v[2])))

    def prompt(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.prompt_ms, task.prompt_tokens = number(v[0]), count(v[1])

    def decode(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.decode_ms, task.decode_tokens = number(v[0]), count(v[1])
        # no time: the 1000000.00 that is printed for a single token is no speed
        task.decode_tps_logged = number(v[3]) if task.decode_ms else None
        task.timed_s = time_s

    def draft(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.drafts_accepted, task.drafts = count(v[1]), count(v[2])

    bare_prompt, bare_decode, bare_draft = prompt, decode, draft

    def graphs(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.graphs_reused = count(v[0])

    def progress(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        self._encoded(time_s, with_prefill=True)

    def batch(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        """It runs; more is not kept of it."""

    def launch(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        """A slot takes a task up; requests are taken up in the order of their arrival."""
        task.launched, task.launched_s = True, time_s
        while self._never_run and self._never_run[0] < task.id:
            self._never_run.popleft()
            self._next_arrival()
        free_s = self._free_s
        if free_s is not None and time_s is not None and time_s - free_s > 1 and self._alone():
            while self._waiting and (self._waiting[0] or 0) < free_s:
                self._next_arrival()  # refused: a free server did not take it up
        if self._waiting:
            arrived_s = self._next_arrival()
            task.arrived_s = arrived_s if task.id > self._newest else None
        self._newest = max(self._newest, task.id)

    def release(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.end_tokens = None if number(v[0]) is None else count(v[0])
        task.truncated = task.truncated or v[1] == b"1"
        self._running.pop(-1 if task.slot is None else task.slot, None)
        if not self._running:
            self._free_s = time_s
        self._end(task)

    def whole(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.stated_tokens = count(v[-1])

    whole_cached = whole

    def cached(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        if task.first_cached is None and task.launched:
            task.first_cached = count(v[0])  # repeated for each batch: the first is before any

    def encode(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        self._encode(task, Encode(time_s, count(v[1]), index=count(v[0]), line=line))

    def shift(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        task.truncated = True
        self._tell(Event(time_s, line, "context_shift", task.slot, task.id))

    def reprocess(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        self._tell(Event(time_s, line, "cache_unusable", task.slot, task.id))

    def checkpoint(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        self._tell(Event(time_s, line, "checkpoint", task.slot, task.id, mib=number(v[2])))

    def block(self, task: Task, v: Values, time_s: Time, line: int) -> None:
        """The lines that follow are about this task."""

    def arrive(self, v: Values, time_s: Time, line: int) -> None:
        self._waiting.append(time_s)

    def idle(self, v: Values, time_s: Time, line: int) -> None:
        self._waiting.clear()

    def cancel(self, v: Values, time_s: Time, line: int) -> None:
        name = count(v[0])
        task = next((task for task in self._running.values() if task.id == name), None)
        if task is not None:
            task.cancelled = True
        elif name > self._newest:
            self._never_run.append(name)
        self._tell(Event(time_s, line, "cancelled", task.slot if task else None, name))

    def updating(self, v: Values, time_s: Time, line: int) -> None:
        self._updating = True

    def updated(self, v: Values, time_s: Time, line: int) -> None:
        self._end_save(time_s)
        self._updating = False
        self._tell(Event(time_s, line, "cache_update", ms=number(v[0])))

    def saved(self, v: Values, time_s: Time, line: int) -> None:
        self._end_save(None)
        kind = "prompt_saved" if self._updating else "idle_slot_saved"
        self._saving = Event(time_s, line, kind, mib=number(v[1]), tokens=count(v[0]))

    def cache(self, v: Values, time_s: Time, line: int) -> None:
        self._end_save(time_s)

    def kept(self, v: Values, time_s: Time, line: int) -> None:
        self._saving = None  # it was there already

    def kv_full(self, v: Values, time_s: Time, line: int) -> None:
        self._tell(Event(time_s, line, "kv_full"))

    def sleep(self, v: Values, time_s: Time, line: int) -> None:
        self._tell(Event(time_s, line, "sleep"))

    def slots(self, v: Values, time_s: Time, line: int) -> None:
        self.log.slots, self.log.slots_s = count(v[0]), time_s
        self.log.context_tokens = count(v[1]) if v[1] else self.log.context_tokens

    def slot_context(self, v: Values, time_s: Time, line: int) -> None:
        self.log.context_tokens = count(v[0])

    def build(self, v: Values, time_s: Time, line: int) -> None:
        self.log.build = count(v[0])

    def splits(self, v: Values, time_s: Time, line: int) -> None:
        if self.log.graph_splits is None:  # the first are the language model's
            self.log.graph_splits = count(v[0])

    def projector_memory(self, v: Values, time_s: Time, line: int) -> None:
        self.log.projector_mib = number(v[0])

    def slice(self, v: Values, time_s: Time, line: int) -> None:
        if self.last is not None:
            self._encode(self.last, Encode(time_s, 1, line=line))
            self._sliced = True

    def image_encoded(self, v: Values, time_s: Time, line: int) -> None:
        if self._encoding:
            self._encoding.stated_encode_ms = number(v[0])

    def image_batch(self, v: Values, time_s: Time, line: int) -> None:
        self._encoded(time_s, with_prefill=False)
        if self._encoding:
            tokens = self._encoding.stated_tokens or 0
            self._encoding.stated_tokens = tokens + count(v[2])

    def image_prefill(self, v: Values, time_s: Time, line: int) -> None:
        if self._encoding:
            self._encoding.prefilled_s = time_s
            stated_ms = self._encoding.stated_prefill_ms or 0.0
            self._encoding.stated_prefill_ms = stated_ms + count(v[2])

    def image_processed(self, v: Values, time_s: Time, line: int) -> None:
        """Of 2025: encode and prefill in one, after lines of its slices or without any."""
        sliced, self._sliced = self._sliced, False
        if self.last is not None and not sliced:
            stated_s = (number(v[0]) or 0.0) / 1000
            began_s = None if time_s is None else time_s - stated_s
            whole = Encode(began_s, 1, time_s, True, stated_total_ms=1000 * stated_s, line=line)
            self.last.encodes.append(whole)

    def _alone(self) -> bool:
        return len(self._running) == 1

    def _next_arrival(self) -> Time:
        return self._waiting.popleft() if self._waiting else None

    def _encode(self, task: Task, encode: Encode) -> None:
        self._encoded(encode.start_s, with_prefill=True)
        if len(task.encodes) < MANY:
            task.encodes.append(encode)
        self._encoding = encode

    def _encoded(self, time_s: Time, with_prefill: bool) -> None:
        """The images are through: the next statement says so."""
        if self._encoding and self._encoding.end_s is None:
            self._encoding.end_s, self._encoding.with_prefill = time_s, with_prefill
        if with_prefill:
            self._encoding = None

    def _end(self, task: Task) -> None:
        if self._encoding and task.encodes and task.encodes[-1] is self._encoding:
            self._encoding = None
        task.settle()
        self._sink.task(self.log, task)

    def _tell(self, event: Event) -> None:
        self._sink.event(self.log, event)

    def _end_save(self, time_s: Time) -> None:
        saving, self._saving = self._saving, None
        if saving:
            known = time_s is not None and saving.time_s is not None
            ms = 1000 * (time_s - saving.time_s) if known else None  # type: ignore[operator]
            self._tell(saving._replace(ms=ms))


def number(text: bytes | None) -> float | None:
    """inf and nan are no measurement; nor is a number with damage in it."""
    try:
        value = float(text or b"nan")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def count(text: bytes | None) -> int:
    """A count of something."""
    try:
        return int(text or 0)
    except ValueError:
        return int(number(text) or 0)
