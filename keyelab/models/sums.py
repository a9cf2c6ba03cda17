"""SHA256SUMS beside the weights: digests the source gave, kept for runs without a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown, write_text

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


def read(folder: Path) -> dict[str, str]:
    """{file name: digest} of the folder's SHA256SUMS; empty when there is none."""
    path = folder / NAME
    if not path.is_file():
        return {}
    digests = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise KeyelabError(
                f"expected 'digest  name' in {shown(path)} line {number}, found {line[:80]!r}",
                f"mend or remove it: sha256sum -c {shown(path)}",
            )
        digests[match[2]] = match[1].lower()
    return digests


def add(folder: Path, digests: Mapping[str, str]) -> None:
    """Keep `digests` in the folder's SHA256SUMS; other lines stay."""
    merged = {**read(folder), **digests}
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(merged.items()))
    write_text(folder / NAME, text)
