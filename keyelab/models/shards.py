"""Models split over several files: recognised and named; one whole file is what is served here."""

from __future__ import annotations

import re
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import shown
from keyelab.models.header import Header

# the names that llama-gguf-split gives (ggml-org/llama.cpp, llama_split_path)
_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def parts(path: Path, count: int) -> list[Path]:
    """The files that a split model consists of, by the name of any of them."""
    match = _NAME.fullmatch(path.name)
    stem = match[1] if match else path.stem
    return [path.with_name(f"{stem}-{n:05d}-of-{count:05d}.gguf") for n in range(1, count + 1)]


def require_whole(header: Header) -> None:
    """Raise KeyelabError for a part of a split model; it says which parts belong together."""
    count = header.values.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return
    files = parts(header.path, count)
    absent = [path.name for path in files if not path.exists()]
    number = header.values.get("split.no")
    which = f"part {number + 1}" if isinstance(number, int) else "a part"
    beside = f"; not there: {', '.join(absent)}" if absent else "; all parts are there"
    raise KeyelabError(
        f"expected one whole model file, found {which} of {count} in {shown(header.path)} "
        f"({files[0].name} to {files[-1].name}){beside}",
        f"{'get the parts, then ' if absent else ''}put them together: llama-gguf-split --merge "
        f"{shown(files[0])} WHOLE.gguf, and set model_file to the result",
    )
