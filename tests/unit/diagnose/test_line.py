"""A line is what its program wrote, whoever passed it on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.diagnose.line import clean

SAID = "slot print_timing: id  3 | task 0 | n_decoded = 100"


@pytest.mark.parametrize(
    "raw",
    [
        SAID,
        f"2.25.109.083 I {SAID}",
        f"\x1b[34m2.25.109.083 \x1b[32mI \x1b[0m{SAID}\r",
        f"llama-server-1  | 2.25.109.083 I {SAID}",
        f"Jan  2 03:04:05 node7 llama-server[77]: 2.25.109.083 I {SAID}",
        f"2026-11-30T21:00:01.000000001Z stdout F 2.25.109.083 I {SAID}",
        f"[pid 4242] {SAID}",
        f"INFO 2.25.109.083 I {SAID}",
        f"\x1b]0;title\x07{SAID}",
        f'{{"log":"\\u001b[32m{SAID}\\u001b[0m\\r\\n","stream":"stderr","time":"2026"}}',
        f'{{"log":"{SAID}',
    ],
)
def test_what_was_put_around_a_line_is_undone(raw: str) -> None:
    assert clean(raw.encode()) == SAID


@pytest.mark.parametrize(
    "line",
    [
        "   70 |     asm volatile",
        "    LLAMA_HIPBLAS",
        "/src/x.cu:58:17: note: requested here",
        "dcc: error: cannot find ROCm device library for gfx1030",
        "[New LWP 69193]",
        "ERROR: HIP kernel mul_mat_f has no device code",
    ],
)
def test_what_belongs_to_a_line_stays(line: str) -> None:
    assert clean(line.encode()) == line


def test_a_step_of_ninja_is_taken_off() -> None:
    assert clean(b"[12/312] Building x.o") == clean(b"[ 12%] Building x.o") == "Building x.o"


@given(st.binary(max_size=300))
def test_any_bytes_become_text_without_control_characters(raw: bytes) -> None:
    text = clean(raw)
    assert not any(ord(letter) < 32 and letter != "\t" for letter in text)
    text.encode()
