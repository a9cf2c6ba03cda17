"""Log lines become tasks, whatever stands around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.perf.reader import parse, read_log

LAUNCH = "1.53.597.137 I slot launch_slot_: id  3 | task 7 | processing task, is_child = 0\n"
READY = "2.09.305.309 I srv  llama_server: model loaded\n"


def test_a_time_is_minutes_seconds_ms_and_us() -> None:
    assert parse([LAUNCH]).tasks[7].launched_s == pytest.approx(113.597137)
    assert parse(["123.00.000.001 W srv llama_server: model loaded\n"]).ready_s == 7380.000001


@pytest.mark.parametrize(
    "prefix",
    [
        "llama-server-1  | ",
        "Jan 02 03:04:05 host-a llama-server[77]: ",
        "2026-01-02T03:04:05Z INFO ",
        "\x1b[34m",
    ],
)
def test_prefixes_and_colours_are_undone(prefix: str) -> None:
    line = prefix + LAUNCH.replace("I slot", "\x1b[32mI \x1b[0mslot").replace("\n", "\r\n")
    assert parse([line]).tasks[7].launched_s == pytest.approx(113.597137)


def test_a_last_line_without_its_end_is_left_out() -> None:
    assert parse([READY, LAUNCH.rstrip()]).tasks == {}


def test_broken_utf8_and_binary_do_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\x00\xfe\n" + LAUNCH.encode() + b"1.54.000.000 I init: \xe4\xbd\n")
    assert list(read_log(path).tasks) == [7]


def test_a_missing_log_and_a_file_that_is_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a llama-server log at"):
        read_log(tmp_path / "none.log")
    path = tmp_path / "notes.txt"
    path.write_text("nothing of interest\n" * 10)
    with pytest.raises(KeyelabError, match="expected llama-server's lines"):
        read_log(path)
