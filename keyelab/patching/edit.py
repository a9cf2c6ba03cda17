"""One edit on one text: the places it finds, the text it makes, whether it is already made.

Only the matched places change: line ends, tabs and everything else stay byte for byte.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.patching.rule import Expect, SyntaxEdit, TextEdit


@dataclass(frozen=True)
class Found:
    """What an edit found: lines (from 1) to change, places already changed, the new text."""

    lines: tuple[int, ...]
    already: int
    text: str
    is_done: bool


def attempt(edit: TextEdit | SyntaxEdit, text: str) -> Found:
    """Try an edit on a text; nothing is judged and nothing is written."""
    return _syntax(edit, text) if isinstance(edit, SyntaxEdit) else _anchored(edit, text)


def nearest(edit: TextEdit | SyntaxEdit, text: str) -> str:
    """The line that looks most like what a text edit sought, as 'line N: …', or ''."""
    if isinstance(edit, SyntaxEdit):
        return ""
    lines = text.splitlines()
    sought = max(edit.find.splitlines(), key=len).strip()
    close = difflib.get_close_matches(sought, [line.strip() for line in lines], n=1, cutoff=0.5)
    if not close:
        return ""
    number = next(i for i, line in enumerate(lines, 1) if line.strip() == close[0])
    return f"line {number}: {close[0]}"


def _anchored(edit: TextEdit, text: str) -> Found:
    start, end = _window(edit.within, text)
    part = text[start:end]
    made = [] if edit.replace == "" else list(_pattern(edit.replace).finditer(part))
    masked = [(m.start(), m.end()) for m in made]
    hits = [
        m
        for m in _pattern(edit.find).finditer(part)
        if not any(a <= m.start() and m.end() <= b for a, b in masked)
    ]
    new = part
    for match in reversed(hits):
        replacement = _with_ends(edit.replace, text)
        new = new[: match.start()] + replacement + new[match.end() :]
    lines = tuple(text.count("\n", 0, start + m.start()) + 1 for m in hits)
    is_done = not hits and edit.expect.min > 0 and edit.expect.holds(len(made))
    return Found(lines, len(made), text[:start] + new + text[end:], is_done)


def _window(within: str, text: str) -> tuple[int, int]:
    if not within:
        return 0, len(text)
    anchors = list(_pattern(within).finditer(text))
    if len(anchors) != 1:
        return 0, 0
    start = anchors[0].start()
    closing = re.compile(r"^\}", re.MULTILINE).search(text, anchors[0].end())
    return start, closing.end() if closing else len(text)


def _pattern(find: str) -> re.Pattern[str]:
    return re.compile(re.escape(find).replace("\\\n", r"\r?\n"))


def _with_ends(new: str, text: str) -> str:
    return new.replace("\n", "\r\n") if "\r\n" in text else new


def _syntax(edit: SyntaxEdit, text: str) -> Found:
    from ast_grep_py import SgRoot

    root = SgRoot(text, "cpp").root()
    nodes = root.find_all({"rule": edit.rule})
    changes = [node.replace(_with_ends(_filled(edit.fix, node), text)) for node in nodes]
    lines = tuple(node.range().start.line + 1 for node in nodes)
    already = len(root.find_all({"rule": edit.done.rule}))
    new = root.commit_edits(changes) if changes else text
    return Found(lines, already, new, not nodes and _done(edit.done.expect, already))


def _done(expect: Expect, count: int) -> bool:
    return expect.min > 0 and expect.holds(count)


def _filled(fix: str, node: Any) -> str:
    def captured(match: re.Match[str]) -> str:
        return str(node[match.group(1)].text())

    return re.sub(r"\$([A-Z_]+)", captured, fix)


def lines_of(text: str) -> Sequence[str]:
    """Lines with their ends; only LF ends a line, as in a unified diff."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
