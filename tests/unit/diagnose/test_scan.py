"""The scan sees what a plain search sees, over the borders of its blocks too."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.diagnose import scan
from keyelab.diagnose.scan import Scan

TEXTS = ["undefined reference to", "killed", "    ggml_hip", "no space left"]
SCAN = Scan(TEXTS, "Building CXX object\n")


def numbers(content: bytes) -> list[int]:
    return [place.number for place in SCAN.places(io.BytesIO(content))]


def naive(content: bytes) -> list[int]:
    lines = content.lower().split(b"\n")
    return [n for n, line in enumerate(lines, 1) if any(text.encode() in line for text in TEXTS)]


LINES = st.lists(
    st.sampled_from([b"Building CXX object x.o", b"", b"Killed", b"x: undefined reference to `y'"])
)


@given(LINES, st.booleans(), st.integers(20, 300))
def test_lines_and_numbers_are_those_of_a_plain_search(
    lines: list[bytes], ended: bool, block: int
) -> None:
    content = b"\n".join(lines) + b"\n" * ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK", block)
        patch.setattr(scan, "BELOW", 64)
        patch.setattr(scan, "ABOVE", 32)
        assert numbers(content) == naive(content)
        assert SCAN.lines == len(content.splitlines())


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(7)


def test_a_pipe_that_trickles_is_read_to_its_end() -> None:
    content = b"good\n" * 5000 + b"Killed\n"
    assert [place.number for place in SCAN.places(Trickle(content))] == [5001]


def test_a_line_of_megabytes_is_looked_at_in_pieces() -> None:
    content = b"x" * 3_000_000 + b" Killed " + b"y" * 3_000_000 + b"\nKilled\n"
    places = list(SCAN.places(io.BytesIO(content)))
    assert [place.number for place in places] == [1, 2]
    assert all(len(place.raw) <= 2 * scan.LINE for place in places)
    assert b" Killed " in places[0].raw


def test_context_is_what_stands_around() -> None:
    lines = [b"line %d" % n for n in range(200_000)]
    lines[150_000] = b"Killed"
    (place,) = SCAN.places(io.BytesIO(b"\n".join(lines)))
    assert place.above[-2:] == [b"line 149998", b"line 149999"]
    assert place.below[:3] == [b"line 150001", b"line 150002", b"line 150003"]


def test_progress_that_overwrites_itself_is_not_part_of_the_line() -> None:
    (place,) = SCAN.places(io.BytesIO(b"10%\r90%\rKilled\r\nok\r\n"))
    assert place.raw == b"Killed"
    assert place.below[0] == b"ok"


def test_texts_that_differ_in_case_only_are_found() -> None:
    assert numbers(b"a\nNO SPACE LEFT on device\n") == [2]
