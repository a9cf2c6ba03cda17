"""What a training run leaves in its folder: a checkpoint to go on from, weights, a log."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import write_bytes


def require_extra() -> None:
    """Raise KeyelabError where the packages of the extra `[train]` are missing."""
    for needed in ("torch", "tokenizers"):
        if importlib.util.find_spec(needed) is None:
            raise KeyelabError(
                f"expected {needed} for training, found none in this environment",
                "pip install 'keyelab[train]'",
            )


def save(path: Path, content: dict[str, Any]) -> None:
    """Write with torch.save; the old file stays until the new one is whole."""
    import torch

    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors on the CPU, nothing but data is unpickled.

    Raises KeyelabError without torch, and for a file that is missing or something else.
    """
    require_extra()
    if not path.is_file():
        raise KeyelabError(
            f"expected a checkpoint of this training, found no file {path}",
            "train first: python -m keyelab.models.demo.train --out NAME",
        )
    import torch

    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise KeyelabError(
            f"expected a checkpoint of this training, found {type(error).__name__} in {path}",
            "remove the file, or train into another folder: --out NAME",
        ) from None
    return content


def earlier(out: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The checkpoint to go on from; None for a fresh folder.

    Raises KeyelabError when it belongs to a run with other settings.
    """
    path = out / "checkpoint.pt"
    if not path.is_file():
        return None
    found = load(path)
    changed = [
        f"{name} {value!r}"
        for name, value in settings.items()
        if found["settings"].get(name) != value
    ]
    if changed:
        raise KeyelabError(
            f"expected a checkpoint with {', '.join(changed)}, found other settings in {path}",
            "repeat the command that began it, or train into another folder: --out NAME",
        )
    return found


def rows(out: Path) -> list[dict[str, Any]]:
    """The log's rows, each with the mean share of right `captions`; None where none was asked."""
    path = out / "log.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    # steps after the last checkpoint are trained again and stand there twice
    found = list({row["step"]: row for row in map(json.loads, lines)}.values())
    for row in found:
        known = [value for name, value in row["right"].items() if name.startswith("caption")]
        row["captions"] = sum(known) / len(known) if known else None
    return found


def note(out: Path, row: dict[str, Any]) -> None:
    """Append one line of JSON to the log."""
    with (out / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(row) + "\n")
