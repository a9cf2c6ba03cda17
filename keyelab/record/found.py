"""Where run folders are, below a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DEPTH = 3
_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, or was to become one."""
    marks = ("run.json", "SHA256SUMS")
    return bool(_NAME.fullmatch(folder.name)) or any((folder / mark).exists() for mark in marks)


def run_folders(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Run folders at most `depth` folders down, each once; folders with a dot are passed over.

    What may not be looked into is given too: who reads it finds out why.
    """
    seen: set[Path] = set()
    level = [folder]
    for _ in range(depth):
        below = []
        for parent in level:
            try:
                entries = sorted(p for p in parent.iterdir() if not p.name.startswith("."))
            except OSError:
                yield parent
                continue
            for path in entries:
                try:
                    if not path.is_dir() or path.resolve() in seen:
                        continue
                    seen.add(path.resolve())
                    run = is_run(path)
                except OSError:
                    run = True
                if run:
                    yield path
                else:
                    below.append(path)
        level = below
