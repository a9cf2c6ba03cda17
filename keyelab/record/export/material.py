"""The files and digests that both exports name: what a phase used and what it made.

A digest is here only when a phase computed it or compared a file with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown
from keyelab.record import run as records
from keyelab.record import seal
from keyelab.record.run import PhaseRecord, Run

BUILT_UPON = {"serve": ("model_fetch", "build"), "build": ("model_fetch",)}


@dataclass(frozen=True)
class Item:
    """A file outside the record: its name, where it was, SHA-256 (hex), size in bytes."""

    name: str
    sha256: str
    path: str = ""
    size_bytes: int | None = None


def exportable(folder: Path) -> Run:
    """The run of a record that is sealed, unedited and no dry run; KeyelabError otherwise."""
    run = records.load(folder)
    seal.require_intact(folder)
    if run.dry_run:
        raise UsageError(
            f"expected a run, found a dry run in {shown(folder)}: it did nothing",
            f"keyelab run --target {run.target}",
        )
    return run


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """What is written there is new, and an error of the disk one sentence (KeyelabError)."""
    empty = output.suffix != ".zip" and output.is_dir() and not any(output.iterdir())
    if output.exists() and not empty:
        found = "a folder" if output.is_dir() else "a file"
        raise KeyelabError(
            f"expected nothing at {shown(output)}, found {found}",
            "-o another name, or remove it first",
        )
    try:
        yield
    except OSError as error:
        raise KeyelabError(
            f"expected to write {shown(output)}, found: {error.strerror or error}",
            "-o a path that can be written",
        ) from None


def executed(run: Run) -> list[PhaseRecord]:
    """The phases that were started and did more than show their plan."""
    return [phase for phase in run.phases if phase.started and phase.status != "skipped"]


def facts(run: Run, phase: str) -> dict[str, Any]:
    """The facts that a phase left, {} when it left none."""
    return next((entry.facts or {} for entry in run.phases if entry.phase == phase), {})


def ended_well(phase: PhaseRecord) -> bool:
    """True for passed and warned."""
    return phase.status in ("passed", "warned")


def end_of(phase: PhaseRecord) -> str | None:
    """When a phase ended, as its start plus its duration; None when either is unknown."""
    if phase.started is None or phase.duration_s is None:
        return None
    end = datetime.strptime(phase.started, records.TIME) + timedelta(seconds=phase.duration_s)
    return end.strftime(records.TIME)


def why(run: Run, phase: PhaseRecord) -> str:
    """What ended a phase that did not end well, in its own words."""
    if phase.failure:
        return phase.failure.message
    return phase.reason or f"the run was {run.status}"


def used(run: Run, phase: PhaseRecord) -> list[Item]:
    """What a phase read: earlier phases' files, the source archive, vendor headers, the video."""
    own = phase.facts or {}
    upon = [other for other in run.phases if other.phase in BUILT_UPON.get(phase.phase, ())]
    found = [item for other in upon for item in made(other)]
    if phase.phase == "source_patch":
        found += _archive(phase)
    if phase.phase == "header_fixes":
        found += [Item(name, digest) for name, digest in own.get("originals", {}).items()]
    if phase.phase == "video_test":
        found += list(_files(own))
    return found


def made(phase: PhaseRecord) -> list[Item]:
    """What a phase left outside the record: the model's files, the binaries."""
    if phase.phase not in ("model_fetch", "build"):
        return []
    return list(_files(phase.facts or {}))


def _files(facts: dict[str, Any]) -> Iterator[Item]:
    for value in facts.values():
        if isinstance(value, dict):
            if {"path", "sha256", "size_bytes"} <= value.keys():
                path = value["path"]
                yield Item(Path(path).name, value["sha256"], path, value["size_bytes"])
            else:
                yield from _files(value)


def _archive(phase: PhaseRecord) -> list[Item]:
    """The source archive, when its whole digest was asked for and so compared."""
    wanted = str(phase.parameters.get("archive_sha256", {}).get("value") or "")
    origin = str((phase.facts or {}).get("origin") or "")
    if not wanted or not origin.endswith(f"sha256:{wanted[:12]}"):
        return []
    return [Item(origin.rpartition(" sha256:")[0], wanted)]
