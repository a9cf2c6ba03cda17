"""Whether a loading server gets on: its log, its memory, what it has read, its cards' memory."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from keyelab.diagnose.line import clean

_NOISE = (1, *4 * (2**20,))  # bytes by which log, memory, reads (two counts), cards have to grow
_TAIL = 4096  # bytes
_CARDS_S = 5.0  # asking a vendor's tool takes its time
_SHARD = re.compile(r"-00001-of-(\d{5})\.gguf$")
_LONGEST = 10  # times the longest standstill: a log can grow for ever
_SLACK = 2  # a disk may become twice as slow as it was


class Progress:
    """What a process has come to, and when something last grew.

    `size_bytes` is what it has to read, `cards_bytes` tells what its cards hold (None unknown).
    """

    def __init__(
        self,
        process: psutil.Process,
        log: Path,
        size_bytes: int = 0,
        cards_bytes: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.process, self.log, self.size_bytes = process, log, size_bytes
        self.cards_bytes = cards_bytes
        self.started = self.loaded_at = time.monotonic()
        self._asked, self._cards = float("-inf"), 0
        self._cards_first: int | None = None
        self.marks = self._signs()
        self._mark()

    def quiet_s(self) -> float:
        """Seconds since log, memory, reads or cards grew last; the use of a core is no progress."""
        signs = self._signs()
        grown = [new >= old + n for new, old, n in zip(signs, self.marks, _NOISE, strict=True)]
        if any(grown):
            self.marks = [max(pair) for pair in zip(signs, self.marks, strict=True)]
            self._mark()
            if any(grown[1:]):
                self.loaded_at = self.moved
        return time.monotonic() - self.moved

    def loaded_bytes(self) -> int:
        """How much of the files has arrived: in memory, by reads, or on the cards."""
        return min(self.size_bytes, max(self.marks[1:]))

    def fraction(self) -> float | None:
        """`loaded_bytes` as a share; None without a size, and never 1: it has to answer yet."""
        return min(self.loaded_bytes() / self.size_bytes, 0.99) if self.size_bytes else None

    def speed_bps(self) -> float | None:
        """Bytes a second up to when they last grew; None before a second has passed."""
        took = self.loaded_at - self.started
        return self.loaded_bytes() / took if took > 1 and self.loaded_bytes() else None

    def deadline_s(self, standstill_s: float) -> float:
        """How long the whole load may take, seconds.

        Twice what its files take at the speed measured, and never less than ten times the
        longest standstill.
        """
        speed = self.speed_bps()
        scaled = _SLACK * self.size_bytes / speed + standstill_s if speed else 0.0
        return max(_LONGEST * standstill_s, scaled)

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
        signs = [0, 0, 0, 0, self._on_cards()]
        with contextlib.suppress(OSError):
            signs[0] = self.log.stat().st_size
        with contextlib.suppress(psutil.Error):
            signs[1] = self.process.memory_info().rss
        with contextlib.suppress(psutil.Error):
            counters = self.process.io_counters()
            # the first counts what the page cache had, the second what page faults brought
            signs[2:4] = [counters.read_chars, counters.read_bytes]
        return signs

    def _on_cards(self) -> int:
        """Growth since the first answer."""
        if time.monotonic() - self._asked >= _CARDS_S:
            self._asked, now = time.monotonic(), self.cards_bytes()
            if now is not None:
                self._cards_first = now if self._cards_first is None else self._cards_first
                self._cards = max(0, now - self._cards_first)
        return self._cards


def size_bytes(files: Iterable[Path]) -> int:
    """Size of model files, all shards of one that has shards; what is not there counts nothing."""
    total = 0
    for file in files:
        split = _SHARD.search(file.name)
        stem = file.name[: split.start()] if split else ""
        shards = range(1, int(split[1]) + 1) if split else ()
        for name in [f"{stem}-{n:05}-of-{split[1]}.gguf" for n in shards if split] or [file.name]:
            with contextlib.suppress(OSError):
                total += file.with_name(name).stat().st_size
    return total
