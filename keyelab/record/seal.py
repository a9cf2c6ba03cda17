"""Sealing a run: pages, package list, SHA256SUMS last; and finding out whether it is intact.

A server that is left running goes on with its log in the run folder. Of such a log run.json seals
what there is, and SHA256SUMS, which `sha256sum -c` reads too, leaves it out.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, shown, write_text
from keyelab.record import run as records
from keyelab.record.run import Growing, PhaseRecord, Run

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


def seal(run: Run, folder: Path, growing: Iterable[Path] = ()) -> str:
    """Write the pages, run.json and SHA256SUMS; returns the digest of SHA256SUMS.

    `growing` are the logs in the run folder that their servers still write.
    """
    from keyelab.record.page import write_pages

    for path in growing:
        size = path.stat().st_size
        start = Growing(size_bytes=size, sha256=sha256_file(path, size_bytes=size))
        run.growing[path.relative_to(folder).as_posix()] = start
    records.save(run, folder)
    write_pages(run, folder)
    fixed = {name: path for name, path in listed(folder).items() if name not in run.growing}
    lines = [f"{sha256_file(path)}  {name}" for name, path in sorted(fixed.items())]
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
    """What differs from SHA256SUMS and the sealed starts of growing logs, a sentence each."""
    try:
        text = (folder / SUMS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return [f"expected {SUMS}, found none: the run was never sealed"]
    wanted = {line[66:]: line[:64] for line in text.splitlines()}
    starts = records.load(folder).growing  # SHA256SUMS holds the digest of run.json
    wanted |= {name: start.sha256 for name, start in starts.items()}
    there = listed(folder)
    found = [f"{name}: missing" for name in sorted(wanted.keys() - there.keys())]
    found += [f"{name}: added after the run" for name in sorted(there.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & there.keys()):
        size = starts[name].size_bytes if name in starts else None
        if sha256_file(there[name], size_bytes=size) != wanted[name]:
            found.append(f"{name}: content changed")
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
