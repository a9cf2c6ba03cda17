"""One edit on one text: the places it finds, the text it makes, whether it is already made.

Only the matched places change: line ends, tabs and everything else stay byte for byte.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keyelab.patching.rule import SyntaxEdit, TextEdit


@dataclass(frozen=True)
class Found:
    """What an edit found: lines (from 1) to change, the new text, whether it was made before."""

    lines: tuple[int, ...]
    text: str
    is_done: bool


def attempt(edit: TextEdit | SyntaxEdit, text: str) -> Found:
    """Try an edit on a text; nothing is judged and nothing is written."""
    return _syntax(edit, text) if isinstance(edit, SyntaxEdit) else _anchored(edit, text)


def nearest(edit: TextEdit | SyntaxEdit, text: str, most: int = 3) -> str:
    """The lines that look most like what an edit sought, as 'line N: …; line M: …', or ''.

    Of a syntax edit the names and numbers are looked for.
    """
    lines = [line.strip() for line in text.splitlines()]
    if isinstance(edit, TextEdit):
        sought = max(edit.find.splitlines(), key=len).strip()
        close = difflib.get_close_matches(sought, lines, n=most, cutoff=0.5)
        numbers = [lines.index(line) for line in close]
    else:
        words = {word for part in _strings(edit.rule) for word in re.findall(r"\w{3,}", part)}
        held = [len(words & set(re.findall(r"\w+", line))) for line in lines]
        best = max(held, default=0)
        numbers = [number for number, count in enumerate(held) if count == best > 0][:most]
    return "; ".join(f"line {number + 1}: {lines[number]}" for number in numbers)


def _strings(rule: Any) -> Iterator[str]:
    if isinstance(rule, dict):
        for key, value in rule.items():
            if key in ("pattern", "regex"):
                yield str(value)
            elif key != "kind":
                yield from _strings(value)
    elif isinstance(rule, list):
        for item in rule:
            yield from _strings(item)


def _anchored(edit: TextEdit, text: str) -> Found:
    window = _window(edit.within, text)
    made = list(_pattern(edit.replace).finditer(text, *window)) if edit.replace else []
    hits = [
        hit
        for hit in _pattern(edit.find).finditer(text, *window)
        # the new text may hold the old one
        if not any(m.start() <= hit.start() and hit.end() <= m.end() for m in made)
    ]
    new = text
    for hit in reversed(hits):
        new = new[: hit.start()] + _with_ends(edit.replace, text) + new[hit.end() :]
    lines = tuple(text.count("\n", 0, hit.start()) + 1 for hit in hits)
    return Found(lines, new, not hits and edit.expect.holds(len(made)))


def _window(within: str, text: str) -> tuple[int, int]:
    if not within:
        return 0, len(text)
    anchors = list(_pattern(within).finditer(text))
    if len(anchors) != 1:
        return 0, 0
    closing = re.compile(r"^\}", re.MULTILINE).search(text, anchors[0].end())
    return anchors[0].start(), closing.end() if closing else len(text)


def _pattern(find: str) -> re.Pattern[str]:
    return re.compile(re.escape(find).replace("\\\n", r"\r?\n"))


def _with_ends(new: str, text: str) -> str:
    return new.replace("\n", "\r\n") if "\r\n" in text else new


def _syntax(edit: SyntaxEdit, text: str) -> Found:
    from ast_grep_py import SgNode, SgRoot

    def fixed(node: SgNode) -> str:
        filled = re.sub(r"\$([A-Z_]+)", lambda name: node[name.group(1)].text(), edit.fix)
        return _with_ends(filled, text)

    root = SgRoot(text, "cpp").root()
    nodes = root.find_all({"rule": edit.rule})
    made = root.find_all({"rule": edit.done.rule})
    new = root.commit_edits([node.replace(fixed(node)) for node in nodes]) if nodes else text
    lines = tuple(node.range().start.line + 1 for node in nodes)
    return Found(lines, new, not nodes and edit.done.expect.holds(len(made)))
