"""Sealing a run: pages, package list, SHA256SUMS last; and finding out whether it is intact."""

from __future__ import annotations

import hashlib
import importlib.metadata
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, shown, write_text
from keyelab.record import run as records
from keyelab.record.run import PhaseRecord, Run

SUMS = "SHA256SUMS"


def freeze(folder: Path) -> str:
    """Write env/pip-freeze.txt, name==version a line; returns its digest."""
    lines = sorted(
        {f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions()},
        key=str.lower,
    )
    text = "\n".join(lines) + "\n"
    write_text(folder / "env" / "pip-freeze.txt", text)
    return hashlib.sha256(text.encode()).hexdigest()


def seal(run: Run, folder: Path) -> str:
    """Write the pages, run.json and SHA256SUMS; returns the digest of SHA256SUMS."""
    from keyelab.record.page import write_pages

    records.save(run, folder)
    write_pages(run, folder)
    lines = [f"{sha256_file(path)}  {name}" for name, path in sorted(listed(folder).items())]
    write_text(folder / SUMS, "\n".join(lines) + "\n")
    if not run.dry_run:
        records.point_latest(folder)
    return sha256_file(folder / SUMS)


def listed(folder: Path) -> dict[str, Path]:
    """Every file of a run but SHA256SUMS, by its path below the run folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path
        for path in files
        if path.relative_to(folder).as_posix() != SUMS
    }


def edits(folder: Path) -> list[str]:
    """What differs from SHA256SUMS: a sentence each for changed, missing and added files."""
    try:
        text = (folder / SUMS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return [f"expected {SUMS}, found none: the run was never sealed"]
    wanted = {line[66:]: line[:64] for line in text.splitlines()}
    there = listed(folder)
    found = [f"{name}: missing" for name in sorted(wanted.keys() - there.keys())]
    found += [f"{name}: added after the run" for name in sorted(there.keys() - wanted.keys())]
    found += [
        f"{name}: content changed"
        for name in sorted(wanted.keys() & there.keys())
        if sha256_file(there[name]) != wanted[name]
    ]
    return found


def require_intact(folder: Path) -> None:
    """Raise KeyelabError when a sealed run was edited."""
    found = edits(folder)
    if found:
        raise KeyelabError(
            f"expected {shown(folder)} as it was sealed, found {found[0]}",
            f"keyelab verify {shown(folder)}",
        )


def files_of_phase(folder: Path, phase: PhaseRecord) -> list[Path]:
    """The files that a phase left in a run folder."""
    stem = Path(phase.notebook).stem
    return [
        path
        for name, path in listed(folder).items()
        if Path(name).name.startswith(stem)
        or name == f"facts/{phase.phase}.json"
        or (phase.phase in ("header_fixes", "source_patch") and name.startswith("patches/"))
    ]
