"""The files of a tree as text while a series of rules is tried on them; nothing is written."""

from __future__ import annotations

from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.patching.rule import Probe


class Texts:
    """The files of a tree, each read once: `before`, and what the rules so far would leave, `now`.

    Reading raises KeyelabError for a file that is not there, is reached through a link, or is no
    UTF-8 text.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.before: dict[str, str] = {}
        self.now: dict[str, str] = {}

    def __getitem__(self, file: str) -> str:
        if file not in self.now:
            self.before[file] = self.now[file] = self._read(file)
        return self.now[file]

    def get(self, file: str) -> str:
        """The text that a file has now, '' where there is none."""
        return self[file] if file in self.now or (self.tree / file).is_file() else ""

    def holds(self, probe: Probe | None, file: str = "") -> bool:
        """True without a probe, and where it holds; it looks at `file` if it names none."""
        return probe is None or probe.holds(self.get(probe.file or file))

    def named(self, glob: str) -> list[str]:
        """The files that a glob names, in order."""
        found = self.tree.glob(glob) if "*" in glob else [self.tree / glob]
        return sorted(p.relative_to(self.tree).as_posix() for p in found if p.is_file())

    def _read(self, file: str) -> str:
        path = self.tree / file
        target = path.resolve()
        if target != self.tree.resolve() / file:
            outside = "" if target.is_relative_to(self.tree.resolve()) else ", outside the tree"
            raise KeyelabError(
                f"expected a plain file at {file}, found a link to {shown(target)}{outside}"
            )
        try:
            return path.read_bytes().decode()
        except FileNotFoundError:
            raise KeyelabError(
                f"expected the file {file} in {shown(self.tree)}, found none"
            ) from None
        except UnicodeDecodeError as error:
            raise KeyelabError(
                f"expected UTF-8 text in {file}, found byte {error.object[error.start]:#04x} "
                f"at {error.start}"
            ) from None
