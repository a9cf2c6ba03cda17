"""Texts and JSON values with aliases in the place of what is personal."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from keyelab.record.sharing.alias import Aliases
from keyelab.record.sharing.names import Names, of_this_machine
from keyelab.record.sharing.personal import KINDS, places
from keyelab.record.sharing.picture import clean_png
from keyelab.record.sharing.public import short_name
from keyelab.record.sharing.view import located, views

Found = tuple[int, int, int, str]  # start, end, rank of its kind, value

LABELLED = 4000  # characters that a key may speak of
LEFT_OUT = "[picture left out]"
_PICTURE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,([A-Za-z0-9+/=\s]{8,})")
_BASE64 = re.compile(
    r"(?<![\w+/=-])[\w+/-]{16,}(?:\r?\n[\w+/-]{16,})*(?:\r?\n[\w+/-]+(?==))?={0,2}(?![\w+/=-])"
)
_ANSWERS = frozenset({"value", "found", "expected"})  # of {"name": …}: they are what name says


class Scrubber:
    """Replaces consistently: it goes through everything once to learn its names, then again."""

    def __init__(self) -> None:
        self.names = Names()
        self.aliases = Aliases()
        self.learning = True
        self.file = ""
        for kind, value in of_this_machine():
            self.names.add(kind, value)

    def learnt(self) -> None:
        """The first round is over: aliases count from now on."""
        self.learning, self.aliases = False, Aliases()

    def text(self, text: str, label: str = "", pictures: bool = True) -> str:
        """`text` with aliases; `label` says what it is, as the key before it in JSON does.

        PNG data URIs are made clean, other ones and, without `pictures`, all are left out.
        """
        text = _PICTURE.sub(lambda match: _clean_uri(match, pictures), text)
        parts, done = [], 0
        for start, end, new in self._changes(text, label):
            parts += [text[done:start], new]
            done = end
        return "".join([*parts, text[done:]])

    def json(self, value: Any, label: str = "", pictures: bool = True) -> Any:
        """A JSON value whose keys and texts have aliases."""
        if isinstance(value, str):
            return self.text(value, label, pictures)
        if isinstance(value, list):
            labels = [_flag(before) or label for before in [None, *value]]
            return [self.json(v, w, pictures) for v, w in zip(value, labels, strict=False)]
        if isinstance(value, dict):
            name = value.get("name")
            asked = name if isinstance(name, str) else label
            return {
                self.text(key): self.json(item, asked if key in _ANSWERS else key, pictures)
                for key, item in value.items()
            }
        return value

    def _changes(self, text: str, label: str) -> list[tuple[int, int, str]]:
        """(start, end, new) in order, without overlap."""
        found = self._found(text) if not label or len(text) > LABELLED else []
        if label:
            before = f'"{label}": "'
            begin = len(before)
            told = self._found(before + text[:LABELLED])
            found += [(a - begin, b - begin, rank, v) for a, b, rank, v in told if a >= begin]
        changes = [
            (start, end, self._alias(KINDS[rank], value))
            for start, end, rank, value in _apart(found)
        ]
        for start, end in _between(changes, len(text)):
            for match in _BASE64.finditer(text, start, end):
                new = self._inside(match[0])
                if new != match[0]:
                    changes.append((*match.span(), new))
        return sorted(changes)

    def _found(self, text: str) -> list[Found]:
        found = []
        for chain in views(text):  # the resolved text tells a value's true spelling
            shown = chain[-1].text
            for start, end, kind in (*places(shown), *self.names.places(shown)):
                found.append((*located(chain, start, end), KINDS.index(kind), shown[start:end]))
        return found

    def _alias(self, kind: str, value: str) -> str:
        if self.learning:
            for name_kind, name in _known_by(kind, value):
                self.names.add(name_kind, name)
        return self.aliases.of(kind, value, "" if self.learning else self.file)

    def _inside(self, token: str) -> str:
        """Base64 of a text with aliases, where the token is base64 of a text."""
        plain = re.sub(r"\s", "", token).replace("-", "+").replace("_", "/")
        try:
            raw = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
            inner = raw.decode()
        except (binascii.Error, UnicodeDecodeError):
            return token
        if not all(c.isprintable() or c in "\n\r\t\x1b" for c in inner):
            return token
        new = self.text(inner)
        return token if new == inner else base64.b64encode(new.encode()).decode()


def _known_by(kind: str, value: str) -> Iterator[tuple[str, str]]:
    """(kind, name) of what tells the same as a value that was found."""
    yield kind, value.strip()
    if kind == "secret":  # user:password, sid=…, the lines of a key
        parts = re.split(r"[\s&=;:]+", value)
        yield from ((kind, part) for part in parts if len(part) > 7)
    if kind == "host":
        yield kind, short_name(value)
    local = value.partition("@")[0]
    if kind == "mail" and len(local) > 3:
        yield "user", local


def _flag(before: Any) -> str:
    return before.lstrip("-") if isinstance(before, str) and before.startswith("--") else ""


def _apart(found: list[Found]) -> list[Found]:
    """Places without overlap: those that do become one, of the kind and value that rank first."""
    apart: list[Found] = []
    for first, last, rank, value in sorted(found, key=lambda place: place[0]):
        if apart and first < apart[-1][1]:
            before = apart[-1]
            best = min((before[2], -len(before[3]), before[3]), (rank, -len(value), value))
            apart[-1] = (before[0], max(last, before[1]), best[0], best[2])
        else:
            apart.append((first, last, rank, value))
    return apart


def _between(changes: list[tuple[int, int, str]], size: int) -> list[tuple[int, int]]:
    """What lies between the changes in a text of a size."""
    ends = [0, *(end for _, end, _ in changes)]
    return list(zip(ends, [*(start for start, _, _ in changes), size], strict=True))


def _clean_uri(match: re.Match[str], pictures: bool) -> str:
    clean = clean_png(decoded(match[1])) if pictures else None
    if clean is None:
        return LEFT_OUT
    return f"data:image/png;base64,{base64.b64encode(clean).decode()}"


def decoded(text: str) -> bytes:
    """The bytes of base64 text; none where it is broken."""
    try:
        return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except binascii.Error:
        return b""
