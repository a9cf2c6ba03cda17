"""What unfinished downloads leave: never taken for a model."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown

_ENDINGS = (".incomplete", ".part", ".partial", ".download", ".aria2", ".crdownload", ".tmp")
# where huggingface_hub, and modelscope before 1.40, keep what is not whole yet
_HIDDEN = (".cache/huggingface/download/*.incomplete", "._____temp/**/*")
_GROWING_S = 60.0


def beside(folder: Path, names: Sequence[str]) -> list[Path]:
    """Left-overs next to the named files, as browsers and clients call them."""
    found: list[Path] = []
    for name in names:
        file = folder / name
        found += [file.with_name(file.name + ending) for ending in _ENDINGS]
        # ModelScope's parts of a large file: <name>_<first byte>_<last byte>
        part = re.compile(re.escape(file.name) + r"_\d+_\d+")
        found += [path for path in file.parent.glob("*") if part.fullmatch(path.name)]
    return [path for path in found if path.is_file()]


def anywhere(folder: Path, names: Sequence[str]) -> list[Path]:
    """`beside`, and what the clients keep in their hidden folders."""
    hidden = [path for pattern in _HIDDEN for path in folder.glob(pattern) if path.is_file()]
    return beside(folder, names) + hidden


def refuse(folder: Path, names: Sequence[str]) -> None:
    """Raise KeyelabError for the first left-over next to the named files."""
    for path in beside(folder, names):
        state = path.stat()
        growing = time.time() - state.st_mtime < _GROWING_S
        raise KeyelabError(
            f"expected finished downloads in {shown(folder)}, found {path.name} "
            f"({amount(state.st_size)}{', written to a moment ago' if growing else ''})",
            "wait for that download, or run it again to its end"
            if growing
            else f"finish that download, or remove what is left of it: rm {shown(path)}",
        )


def amount(count: int | None) -> str:
    """Bytes as people say them: GB from 10⁹ up, MB below; 'unknown' for None."""
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
