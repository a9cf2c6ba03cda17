from __future__ import annotations

import os
import socket

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import port


def test_any_port_is_claimed_and_can_then_be_bound() -> None:
    number = port.claim("127.0.0.1", 0)
    assert number > 0
    assert port.is_free("127.0.0.1", number)
    assert port.listeners(number) == set()
    assert port.claim("127.0.0.1", number) == number


def test_holder_of_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = listening.getsockname()[1]
        assert port.listeners(taken) == {os.getpid()}
        assert not port.is_free("127.0.0.1", taken)
        with pytest.raises(KeyelabError, match=rf"pid {os.getpid()}") as error:
            port.claim("127.0.0.1", taken)
    assert f"kill {os.getpid()}" in error.value.hint


def test_address_that_this_machine_does_not_have_is_one_sentence() -> None:
    with pytest.raises(KeyelabError, match=r"on 192\.0\.2\.1 to be free, found Cannot assign"):
        port.claim("192.0.2.1", 0)
