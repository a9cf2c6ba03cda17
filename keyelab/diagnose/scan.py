"""Candidate lines of a log of any size: one pass, constant memory, hundreds of MB a second.

Four neighbouring bytes of each literal text, chosen to be rare in healthy logs, are its key. All
positions of a block are looked up in a table of keys at once; Python then sees only the few
positions where a key stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

BLOCK = 1 << 20
ABOVE, BELOW = 2048, 8192  # bytes of context kept around a line
LINE = 4096  # a longer line is looked at in pieces
_FREQUENT = "etaoin srlcdu_mpgh./01-2fb3456789ykw:vxjqz"  # letters in logs, the rarest last
_MULTIPLIER, _SHIFT = 2654435761, 16  # multiplicative hashing to 16 bits
_BREAK = re.compile(rb"[\r\n]")
_BREAKS = re.compile(rb"\r*\n|\r")


@dataclass(frozen=True)
class Place:
    """A candidate line: its number (from 1), the texts that may be in it, and what is around."""

    number: int
    texts: set[str]
    buffer: bytes
    left: int
    right: int

    @property
    def raw(self) -> bytes:
        """The line without its end."""
        return self.buffer[self.left : self.right]

    @property
    def above(self) -> list[bytes]:
        """Lines before it, as many as the scan keeps; the first may be cut."""
        return _BREAKS.split(self.buffer[max(0, self.left - ABOVE) : self.left])[:-1]

    @property
    def below(self) -> list[bytes]:
        """Lines after it, as many as the scan keeps; the last may be cut."""
        return _BREAKS.split(self.buffer[self.right : self.right + BELOW])[1:]


class Scan:
    """Finds the lines that hold one of `texts` (lower case); `common` is what healthy logs say."""

    def __init__(self, texts: Iterable[str], common: str) -> None:
        import numpy as np

        healthy = common.lower().encode()
        self._common = Counter(healthy[at : at + 4] for at in range(len(healthy) - 3))
        self._keys: dict[int, list[tuple[int, bytes, str]]] = {}
        for text in texts:
            content = text.encode()
            start = min(range(len(content) - 3), key=lambda at: self._cost(content[at : at + 4]))
            key = int.from_bytes(content[start : start + 4], "little")
            self._keys.setdefault(key, []).append((start, content, text))
        self._np = np
        self._words = np.array(sorted(self._keys), dtype="<u4")
        self._table = np.zeros(1 << 16, dtype=np.bool_)
        self._table[self._hashed(self._words)] = True
        self.lines = 0
        self.tail = b""

    def places(self, stream: IO[bytes], above: int = 0) -> Iterator[Place]:
        """Candidate lines in order, `above` lines are already read.

        Afterwards `lines` is the number of the last one, `tail` the log's end.
        """
        buffer, start, number = b"", 0, above + 1
        while True:
            block = stream.read(BLOCK)
            buffer += block
            end = len(buffer) - BELOW if block else len(buffer)
            if block and end <= start:
                continue
            if block:
                end = buffer.rfind(b"\n", start, end) + 1 or end
            counted = start
            for left, right, texts in self._lines(buffer, start, end):
                number += buffer.count(b"\n", counted, left)
                counted = left
                yield Place(number, texts, buffer, left, right)
            number += buffer.count(b"\n", counted, end)
            if not block:
                break
            keep = max(0, end - ABOVE)
            buffer, start = buffer[keep:], end - keep
        self.tail = buffer[-ABOVE:]
        self.lines = number - (not buffer or buffer.endswith(b"\n"))

    def _lines(self, buffer: bytes, start: int, end: int) -> Iterator[tuple[int, int, set[str]]]:
        low = buffer.lower()
        whole = not _broken_up(low, start, len(low))
        left = right = -1
        texts: set[str] = set()
        for at in self._hits(low, start, end):
            found = self._found(low, at, whole)
            if not found:
                continue
            if at >= right:
                if texts:
                    yield left, right, texts
                left, right, texts = *_bounds(low, at), set()
            texts |= found
        if texts:
            yield left, right, texts

    def _cost(self, group: bytes) -> tuple[int, bool, bool, int]:
        # a colour may stand between words, and JSON escapes some signs
        apart = any(sign in group for sign in b' "<>&\\')
        shared = len(self._keys.get(int.from_bytes(group, "little"), [])) > 2
        return self._common[group], apart, shared, -sum(map(_FREQUENT.find, map(chr, group)))

    def _hits(self, low: bytes, start: int, end: int) -> list[int]:
        np = self._np
        found = []
        for offset in range(4):
            count = (min(end + 3, len(low)) - start - offset) // 4
            if count > 0:
                words = np.frombuffer(low, dtype="<u4", offset=start + offset, count=count)
                at = np.flatnonzero(self._table[self._hashed(words)])
                at = at[np.isin(words[at], self._words)]
                found.append(at * 4 + start + offset)
        return sorted(np.concatenate(found).tolist()) if found else []

    def _hashed(self, words: Any) -> Any:
        return (words * self._np.uint32(_MULTIPLIER)) >> self._np.uint32(_SHIFT)

    def _found(self, low: bytes, at: int, whole: bool) -> set[str]:
        found = set()
        keyed = self._keys[int.from_bytes(low[at : at + 4], "little")]
        for start, content, text in keyed:
            if low.startswith(content, at - start):
                found.add(text)
        if not (found or whole) and _broken_up(low, max(0, at - 100), at + 100):
            found.update(text for _, _, text in keyed)
        return found


def _broken_up(low: bytes, start: int, end: int) -> bool:
    """Whether colours or escapes of JSON may stand inside a text."""
    return low.find(b"\x1b", start, end) >= 0 or low.find(b"\\", start, end) >= 0


def _bounds(low: bytes, at: int) -> tuple[int, int]:
    least, most = max(0, at - LINE // 4), at + LINE
    left = max(low.rfind(b"\n", least, at), low.rfind(b"\r", least, at))
    end = _BREAK.search(low, at, most)
    return (left + 1 if left >= 0 else least), (end.start() if end else min(most, len(low)))
