"""Whether a loading server gets on: its log, its memory, and what it has read."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil

from keyelab.diagnose.line import clean

_NOISE = (1, 2**20, 2**20)  # bytes by which log, memory and reads have to grow
_TAIL = 4096  # bytes


class Progress:
    """What a process has come to, and when something last grew."""

    def __init__(self, process: psutil.Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.marks = self._signs()
        self._mark()

    def quiet_s(self) -> float:
        """Seconds since log, memory or reads grew last; the use of a core is no progress."""
        signs = self._signs()
        grown = zip(signs, self.marks, _NOISE, strict=True)
        if any(new >= old + least for new, old, least in grown):
            self.marks = [max(pair) for pair in zip(signs, self.marks, strict=True)]
            self._mark()
        return time.monotonic() - self.moved

    def load(self) -> str:
        """What it has done since then: '1.0 cores busy, uninterruptible in the kernel'."""
        with contextlib.suppress(psutil.Error):
            cores = (self._busy_s() - self.busy_s) / max(time.monotonic() - self.moved, 1e-3)
            waits = self.process.status() == psutil.STATUS_DISK_SLEEP
            return f"{cores:.1f} cores busy{', uninterruptible in the kernel' * waits}"
        return "its state cannot be read"

    def last_line(self) -> str:
        """The last line of the log, as the program wrote it."""
        with contextlib.suppress(OSError), self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - _TAIL))
            lines = [text for raw in stream.read().splitlines() if (text := clean(raw).strip())]
            return (lines or ["no line in its log yet"])[-1]
        return "its log cannot be read"

    def _mark(self) -> None:
        self.moved = time.monotonic()
        self.busy_s = self._busy_s()

    def _busy_s(self) -> float:
        with contextlib.suppress(psutil.Error):
            times = self.process.cpu_times()
            return float(times.user + times.system)
        return 0.0

    def _signs(self) -> list[int]:
        signs = [0, 0, 0]
        with contextlib.suppress(OSError):
            signs[0] = self.log.stat().st_size
        with contextlib.suppress(psutil.Error):
            signs[1] = self.process.memory_info().rss
        with contextlib.suppress(psutil.Error):
            counters = self.process.io_counters()
            signs[2] = counters.read_chars + counters.read_bytes  # the latter counts page faults
        return signs
