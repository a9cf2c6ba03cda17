"""The names of a record's hosts and people, and its secrets, wherever they stand."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import project_root
from keyelab.record.sharing.address import Place
from keyelab.record.sharing.personal import KINDS
from keyelab.record.sharing.public import is_public

SHORTEST = {"secret": 6}
_ACCOUNT = re.compile(r"[a-z]+(?:[._-][a-z]+)?\d{0,2}")


class Names:
    """The names that were found, to look for them where nothing tells what they are."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, kind: str, value: str) -> None:
        """Note a value, unless it is too short or too common to stand for one thing."""
        if len(value) < SHORTEST.get(kind, 3) or is_public(value):
            return
        if kind == "folder" and not _ACCOUNT.fullmatch(value):
            return  # a model's name, perhaps
        before = self.kinds.get(value.lower())
        if before is None or KINDS.index(kind) < KINDS.index(before):
            self.kinds[value.lower()] = kind
            self._pattern = None

    def places(self, text: str) -> Iterator[Place]:
        """(start, end, kind) of each name that stands in `text` as a word, in any case."""
        if not self.kinds:
            return
        if self._pattern is None:
            longest = sorted(self.kinds, key=len, reverse=True)
            names = "|".join(map(re.escape, longest))
            self._pattern = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])")
        for match in self._pattern.finditer(text):
            yield (*match.span(), self.kinds.get(match[0].lower(), "user"))


def of_this_machine() -> list[tuple[str, str]]:
    """(kind, value) of what this machine is called, who uses it and where keyelab is."""
    found = [("host", socket.gethostname()), ("host", socket.gethostname().partition(".")[0])]
    try:
        found.append(("user", getpass.getuser()))
        found.append(("user", Path.home().name))
        found.append(("path", str(project_root())))
    except (KeyError, OSError, RuntimeError, KeyelabError):  # a container's user may have none
        pass
    return found
