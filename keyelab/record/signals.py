"""Ctrl-C and SIGTERM held back where they would leave something half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def held_back() -> Iterator[list[int]]:
    """Yields the list of signals that came during the block; who uses it decides what they mean.

    Only the main thread gets signals; elsewhere this does nothing.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
