from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from keyelab.errors import KeyelabError
from keyelab.serving import port


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_port_can_be_bound() -> None:
    number = port.free("127.0.0.1")
    assert port.is_free("127.0.0.1", number)
    assert port.holder(number) is None
    port.require_free("127.0.0.1", number)


def test_holder_of_a_taken_port_is_named(taken: int) -> None:
    holder = port.holder(taken)
    assert holder is not None
    assert holder.pid == os.getpid()
    with pytest.raises(KeyelabError, match=rf"pid {os.getpid()}") as error:
        port.require_free("127.0.0.1", taken)
    assert "ss -ltnp" in error.value.hint


def test_own_server_on_the_port_is_stopped_with_keyelab(taken: int) -> None:
    with pytest.raises(KeyelabError, match="another server of keyelab") as error:
        port.require_free("127.0.0.1", taken, ours=os.getpid())
    assert error.value.hint.startswith(f"keyelab stop --port {taken}")


def test_holder_of_another_user_is_not_invented() -> None:
    assert str(port.Holder(None, None)) == "a process of another user"
