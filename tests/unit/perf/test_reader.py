"""Log lines become tasks, whatever stands around them."""

from __future__ import annotations

from pathlib import Path

import pytest
from perflog import parse, read_log

from keyelab.errors import KeyelabError

LAUNCH = "1.53.597.137 I slot launch_slot_: id  3 | task 7 | processing task, is_child = 0\n"
READY = "1.09.305.309 I srv  llama_server: model loaded\n"
NEXT = "2.00.000.001 I slot launch_slot_: id  3 | task 7 | processing task, is_child = 0\n"


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


def timing(said: str, task: int = 7) -> str:
    return f"2.00.000.000 I slot print_timing: id  3 | task {task} | {said}\n"


PROMPT = timing(
    "prompt eval time =    2000.00 ms /    10 tokens "
    "(  200.00 ms per token,     5.00 tokens per second)"
)
DECODE = timing(
    "       eval time =    8000.00 ms /   160 tokens "
    "(   50.00 ms per token,    20.00 tokens per second)"
)
MARK = timing("n_decoded =    100, tg =  20.00 t/s, tg_3s =  20.00 t/s")
DRAFTS = timing("draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.92")


@pytest.mark.parametrize("line", [PROMPT, DECODE, MARK, DRAFTS])
def test_a_statement_cut_anywhere_gives_no_figure_and_is_counted(line: str) -> None:
    for cut in range(line.index("=") + 1, line.index(" t/s" if line == MARK else ")")):
        log = parse([READY, LAUNCH, line[:cut] + "\n", NEXT])
        assert log.damaged == [3]
        (task,) = log.tasks.values()
        assert (task.prompt_ms, task.decode_ms, task.marks, task.drafts) == (None, None, [], None)
        assert parse([READY, line[:cut]]).damaged == [2]


def test_a_whole_last_line_counts_without_its_end() -> None:
    log = parse([PROMPT, DECODE.rstrip("\n")])
    assert (log.finished[0].decode_tokens, log.damaged) == (160, [])


def test_a_line_without_its_beginning_is_damaged_and_other_text_is_not() -> None:
    lines = [MARK[MARK.index("print") :], "Hi there | task | of today\n", "\n", MARK]
    assert parse(lines).damaged == [1]


def test_lines_almost_like_one_are_neither_read_nor_damaged() -> None:
    lines = [
        LAUNCH,
        timing("n_decoded = 5, n_remaining = -1, next token:  1234 ' is'"),
        timing("n_gen = 6, n_remaining = -1, next token:  1234 '\ufffd'"),
        timing("      total time =   10000.00 ms /   170 tokens"),
        timing("     acc per pos = (0.805, 0.632)"),
        "2.00.000.000 I statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, "
        "#gen drafts =     87, #acc drafts =    70, #gen tokens =    259, #acc tokens =   167\n",
    ]
    log = parse(lines)
    assert log.damaged == []
    assert (log.tasks[7].marks, log.tasks[7].decode_tokens, log.tasks[7].drafts) == ([], None, None)


def test_damage_before_the_last_server_run_is_not_about_it() -> None:
    start = "0.00.004.001 I srv    load_model: loading model 'm.gguf'\n"
    assert parse([PROMPT[:100] + "\n", start, LAUNCH]).damaged == []


COLOURED = b"\x1b[34m2.00.000.000 \x1b[32mI \x1b[0mslot" + MARK.encode().partition(b"slot")[2]
WRAPPED = b"\r\n".join(
    [
        COLOURED.rstrip() + b"\x1b[K",
        b"2026-01-02T03:04:05Z INFO " + PROMPT.encode().rstrip(),
        b"2026-01-02T03:04:05.123Z stderr F " + DECODE.encode().rstrip(),
        b"<6>2.28.000.000 I init: example_format: '\xe4\xbd\xa0\xe5\xa5",
        b"Jan 02 03:04:05 host-a llama-server[77]: 2.30.000.000 I slot      release: id  3 "
        b"| task 7 | stop processing: n_tokens = 169, truncated = 0",
        b"Jan 02 03:04:05 host-a llama-server[77]: "
        + PROMPT.replace("task 7", "task 9").replace("2.00", "2.31").encode()[:75],
    ]
)


@pytest.mark.parametrize("escape", ["\x1b[1;34m", "\x1b[0K", "\x1b[?25l", "\x1b]0;title\x07"])
def test_escapes_of_a_terminal_are_undone(escape: str) -> None:
    line = escape.join(["", "1.53.597.137 ", "I ", MARK[MARK.index("slot") :]])
    assert parse([line]).tasks[7].marks == [(pytest.approx(113.597137), 100, 20.0, 20.0)]


def test_a_carriage_return_is_no_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"loading 10%\rloading 20%\r\n" + DECODE.encode())
    assert read_log(path).tasks[7].line == 2


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
