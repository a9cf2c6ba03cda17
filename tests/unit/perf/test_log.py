"""Log lines become records, whatever happened to them on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import KeyelabError
from keyelab.perf.log import Record, parse, read_log

LINE = "1.53.597.137 I slot launch_slot_: id  3 | task 0 | processing task, is_child = 0"


def one(text: str) -> Record:
    (record,) = parse([text])
    return record


def test_a_time_is_minutes_seconds_ms_and_us() -> None:
    assert one(LINE + "\n").time_s == pytest.approx(113.597137)
    assert one("123.00.000.001 W x\n").time_s == pytest.approx(7380.000001)


def test_a_slot_line_is_taken_apart() -> None:
    record = one(LINE + "\n")
    assert (record.level, record.source, record.function) == ("I", "slot", "launch_slot_")
    assert (record.slot, record.task) == (3, 0)
    assert record.message == "processing task, is_child = 0"
    assert not record.cut


def test_a_server_line_and_an_untagged_line_are_told_apart() -> None:
    server = one("2.09.305.309 I srv  llama_server: model loaded\n")
    assert (server.source, server.function, server.message) == (
        "srv",
        "llama_server",
        "model loaded",
    )
    plain = one("0.00.010.000 I load_tensors: offloaded 49/49 layers\n")
    assert (plain.source, plain.task) == ("", None)


@pytest.mark.parametrize(
    "prefix",
    [
        "llama-server-1  | ",
        "Jan 02 03:04:05 host-a llama-server[77]: ",
        "[  812] ",
        "2026-01-02T03:04:05Z INFO ",
        "\x1b[34m",
    ],
)
def test_prefixes_and_colours_are_undone(prefix: str) -> None:
    before, line = LINE + "\n", prefix + LINE.replace("I slot", "\x1b[32mI \x1b[0mslot") + "\r\n"
    first, record = parse([before, line])
    assert first.message == "processing task, is_child = 0", "a prefix is no continuation"
    assert (record.task, record.message, record.line) == (0, first.message, 2)


def test_several_records_on_one_line_are_separated() -> None:
    records = list(parse([f"{LINE} 1.53.700.000 W srv stop: cancel task, id_task = 7\n"]))
    assert [record.level for record in records] == ["I", "W"]
    assert records[1].message == "cancel task, id_task = 7"


def test_a_number_that_looks_like_a_time_separates_nothing() -> None:
    assert len(list(parse(["0.00.000.001 I version 10.0.19.100 I mean it\n"]))) == 1


def test_a_line_without_a_time_continues_the_one_before() -> None:
    (record,) = parse([LINE + "\n", "  more\n", "\n", "and more\n"])
    assert record.message.endswith("is_child = 0 more and more")


def test_a_wrapped_flattened_log_is_put_together() -> None:
    head, tail = LINE.split(" task, ")
    wrapped = parse([f"{LINE} {head}\n", f"task, {tail} {LINE}\n"])
    assert [record.message for record in wrapped] == [one(LINE).message] * 3


def test_old_lines_without_times_are_records_too() -> None:
    record = one("slot print_timing: id  0 | task 5 | \n")
    assert (record.time_s, record.slot, record.task, record.message) == (None, 0, 5, "")


def test_a_last_line_without_its_end_is_marked() -> None:
    first, last = parse([LINE + "\n", LINE])
    assert (first.cut, last.cut) == (False, True)


def test_broken_utf8_and_binary_do_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\x00\xfe\n" + LINE.encode() + b"\n1.54.000.000 I init: \xe4\xbd\n")
    assert [record.line for record in read_log(path)] == [2, 3]


def test_a_long_foreign_file_stays_small() -> None:
    (record,) = parse([LINE + "\n", *["x" * 100 + "\n"] * 10_000])
    assert len(record.message) < 5000


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a llama-server log at"):
        list(read_log(tmp_path / "none.log"))
