"""The same value gets the same alias everywhere: host-a, user-b, [secret-c]."""

from __future__ import annotations

from collections import Counter

from keyelab.record.sharing.address import canonical
from keyelab.record.sharing.public import short_name


class Aliases:
    """Aliases by kind and value, and how often each was written into which file."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self.used: Counter[tuple[str, str, str]] = Counter()

    def of(self, kind: str, value: str, file: str = "") -> str:
        """The alias of a value; counts its use in `file`, where one is named."""
        key = (kind, _one_spelling(kind, value))
        if key not in self._given:
            number = sum(given == kind for given, _ in self._given)
            self._given[key] = _written(kind, _letters(number))
        alias = self._given[key]
        if file:
            self.used[kind, alias, file] += 1
        return alias


def _one_spelling(kind: str, value: str) -> str:
    if kind in ("ip", "mac"):
        return canonical(kind, value)
    if kind == "host":
        return short_name(value)
    return value if kind in ("secret", "path") else value.lower()


def _written(kind: str, letters: str) -> str:
    return {"secret": f"[secret-{letters}]", "path": f"/path-{letters}"}.get(
        kind, f"{kind}-{letters}"
    )


def _letters(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
