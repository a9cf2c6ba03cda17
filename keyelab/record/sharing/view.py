"""A text as it reads once its escapes are resolved, and where each part of that stands in it.

A name may stand in a log in colour, in a URL as %41, in HTML as &#65;, in JSON text as \\u0041. It
is looked for in the resolved text and replaced in the one that is there.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass

COLOUR = r"\x1b\[[0-?]*[ -/]*[@-~]"
_COLOUR = re.compile(COLOUR)
_X = "[0-9A-Fa-f]"
_ESCAPE = re.compile(
    rf"{COLOUR}|&(?:#\d{{1,7}}|#[xX]{_X}{{1,6}}|[A-Za-z]\w{{1,9}});"
    rf"|%[0-7]{_X}|%[CcDd]{_X}%{_X}{{2}}|%[Ee]{_X}(?:%{_X}{{2}}){{2}}|%[Ff]{_X}(?:%{_X}{{2}}){{3}}"
    rf"|\\u[Dd][89ABab]{_X}{{2}}\\u[Dd][C-Fc-f]{_X}{{2}}|\\u{_X}{{4}}|\\x[0-7]{_X}|\\[nrt\"'/\\]"
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
DEPTH = 4  # JSON in JSON in a notebook


@dataclass(frozen=True)
class View:
    """A text, and from where its pieces come: (start here, start there, length there or 0: same).

    Pieces are in order and cover the text; `length` is set for one that was resolved as a whole.
    """

    text: str
    pieces: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Where a non-empty part of this text stands in the text it was made from."""
        here, there, length = self._piece(start)
        first = there if length else there + start - here
        here, there, length = self._piece(end - 1)
        return first, there + length if length else there + end - here

    def _piece(self, place: int) -> tuple[int, int, int]:
        return self.pieces[bisect_right(self.pieces, (place, 1 << 62, 0)) - 1]


def views(text: str) -> list[list[View]]:
    """Chains of views of a text, the most resolved first; the last has only lost its colours.

    The places of a chain's last text are found in `text` by `located`.
    """
    chain = [_resolved(text, _COLOUR)]
    chains = [chain]
    for _ in range(DEPTH):
        view = _resolved(chain[-1].text, _ESCAPE)
        if view.text == chain[-1].text:
            break
        chain = [*chain, view]
        chains.insert(0, chain)
    return chains


def located(chain: list[View], start: int, end: int) -> tuple[int, int]:
    """Where a part of a chain's last text stands in the text the chain was made from."""
    for view in reversed(chain):
        start, end = view.origin(start, end)
    return start, end


def _resolved(text: str, escape: re.Pattern[str]) -> View:
    parts, pieces, here, there = [], [], 0, 0
    for match in escape.finditer(text):
        new = _meaning(match[0])
        if new == match[0]:
            continue
        if match.start() > there:
            pieces.append((here, there, 0))
            parts.append(text[there : match.start()])
            here += match.start() - there
        if new:
            pieces.append((here, match.start(), len(match[0])))
            parts.append(new)
            here += len(new)
        there = match.end()
    if not parts and not there:
        return View(text)
    pieces.append((here, there, 0))
    return View("".join([*parts, text[there:]]), tuple(pieces))


def _meaning(escape: str) -> str:
    if escape[0] == "\x1b":
        return ""
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%":
        return bytes.fromhex(escape.replace("%", "")).decode(errors="replace")
    if len(escape) == 2:
        return _LETTERS.get(escape[1], escape[1])
    if escape[1] == "x":
        return chr(int(escape[2:], 16))
    units = bytes.fromhex(escape.replace("\\u", ""))
    return units.decode("utf-16-be", errors="replace")
