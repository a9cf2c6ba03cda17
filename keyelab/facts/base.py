"""What all facts are, and how those of a phase are read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from keyelab.errors import KeyelabError, NeedsPhase
from keyelab.files import read_json, shown

F = TypeVar("F", bound="Facts")


class Facts(BaseModel):
    """Base of the facts of each phase."""

    model_config = ConfigDict(extra="forbid")


class FileFact(Facts):
    """A file and its digest."""

    path: str
    sha256: str
    size_bytes: int


def read_facts(folder: Path, phase: str, kind: type[F]) -> F:
    """The facts of `phase` in a run folder.

    Raises NeedsPhase when the phase has not left any, KeyelabError when they do not fit.
    """
    path = folder / "facts" / f"{phase}.json"
    if not path.exists():
        raise NeedsPhase(
            f"expected the facts of {phase} at {shown(path)}, found none",
            f"run that phase first: keyelab run --to {phase}, or its notebook",
        )
    content = read_json(path)
    try:
        return kind.model_validate(content["facts"])
    except (KeyError, TypeError, ValidationError) as error:
        raise KeyelabError(
            f"expected the facts of {phase} in {shown(path)}, found: {str(error).splitlines()[0]}",
            f"run that phase again: keyelab run --from {phase}",
        ) from None
