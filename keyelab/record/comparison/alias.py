"""Values of shared copies, in which names and paths were replaced by aliases such as host-a.

What an alias stands for cannot be told, so a copy's value equals another that has anything in its
place.
"""

from __future__ import annotations

import re
from typing import Any

_ALIAS = re.compile(
    r"\[secret-[a-z]+\]|/path-[a-z]+"
    r"|\b(?:host|user|person|folder|mail|ip|mac|uuid|serial)-[a-z]{1,3}\b"
)


def alike(a: Any, b: Any) -> bool:
    """Whether two values are equal but for what aliases hide; of copies only."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, str) and isinstance(b, str):
        hidden = _ALIAS.sub("*", a) == _ALIAS.sub("*", b)
        return a == b or hidden or _fits(a, b) or _fits(b, a)
    return bool(a == b)


def _fits(copied: str, text: str) -> bool:
    """Whether `text` has the parts of a copied text that are not hidden, in their order."""
    first, *parts = _ALIAS.split(copied)
    if not parts or not text.startswith(first) or not text.endswith(parts[-1]):
        return False
    place, end = len(first), len(text) - len(parts[-1])
    for part in parts[:-1]:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return place <= end
