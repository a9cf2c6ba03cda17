"""Signals that are held back are told, and work again afterwards."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from keyelab.record.signals import held_back


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_block_is_told_and_not_raised(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with held_back() as came:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert came[0] == number
    assert signal.getsignal(number) == before


def test_another_thread_holds_nothing_back() -> None:
    found: list[object] = []

    def work() -> None:
        before = signal.getsignal(signal.SIGINT)
        with held_back():
            found.append(signal.getsignal(signal.SIGINT) == before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]
