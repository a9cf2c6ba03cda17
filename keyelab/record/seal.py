"""Sealing a run: pages, package list, SHA256SUMS last; and finding out whether it is intact.

A server that is left running goes on with its log in the run folder. Of such a log run.json seals
what there is, and SHA256SUMS, which `sha256sum -c` reads too, leaves it out.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, shown, write_text
from keyelab.record import run as records
from keyelab.record.run import Growing, PhaseRecord, Run

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
_FILE, _EMPTY = "a file", "an empty folder"
# a phase makes them before it has something to put there
_FOLDERS = frozenset({"env", "facts", "headers", "logs", "patches", "plots"})


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

    `growing` are the logs in the run folder that their servers still write. Until all else is there
    run.json says `running`, so that a kill in between leaves no claim.
    """
    from keyelab.record.page import write_pages

    for path in growing:
        size = path.stat().st_size
        start = Growing(size_bytes=size, sha256=sha256_file(path, size_bytes=size))
        run.growing[path.relative_to(folder).as_posix()] = start
    write_pages(run, folder)
    fixed = {name: path for name, path in listed(folder).items() if name not in run.growing}
    sums = {name: sha256_file(path) for name, path in fixed.items() if name != "run.json"}
    records.save(run, folder)
    sums["run.json"] = sha256_file(folder / "run.json")
    lines = [f"{digest}  {name}" for name, digest in sorted(sums.items())]
    write_text(folder / SUMS, "\n".join(lines) + "\n")
    if not run.dry_run and not (run.closed and _has_newer(run, folder)):
        records.point_latest(folder)
    return sha256_file(folder / SUMS)


def _has_newer(run: Run, folder: Path) -> bool:
    newest = records.latest(run.target)
    return newest is not None and newest.name > folder.name


def listed(folder: Path) -> dict[str, Path]:
    """Every regular file of a run but SHA256SUMS and its signature, by its path below the folder.

    Links are not followed and not files of a run.
    """
    return {
        name: folder / name
        for name, kind in _below(folder)
        if kind == _FILE and name not in (SUMS, SIGNATURE)
    }


def edits(folder: Path) -> list[str]:
    """What differs from SHA256SUMS and the sealed starts of growing logs, a sentence each.

    Each begins with the name of the file. Not found: file modes, owners and times; what stands in
    a growing log after its sealed start; an empty folder of a name that runs use; and everything
    when SHA256SUMS was written anew, which only a signature tells.
    """
    try:
        there = dict(_below(folder))
        if SUMS not in there:
            return [f"{SUMS}: expected this file, found none: the run was never sealed"]
        found = [
            f"{name}: {kind}, which no run leaves"
            for name, kind in sorted(there.items())
            if kind != _FILE and not (kind == _EMPTY and name.rstrip("/") in _FOLDERS)
        ]
        if there[SUMS] != _FILE:
            return found
        wanted, malformed = _sums(folder)
        starts = _starts(folder) if there.get("run.json") == _FILE else {}
    except OSError as error:
        return [f"{error.filename}: cannot be read: {error.strerror}"]
    found += malformed
    starts = {name: start for name, start in starts.items() if name not in wanted}
    wanted |= {name: start.sha256 for name, start in starts.items()}
    files = {name for name, kind in there.items() if kind == _FILE} - {SUMS, SIGNATURE}
    found += [f"{name}: missing, {SUMS} names it" for name in sorted(wanted.keys() - there.keys())]
    found += [f"{name}: added after the run" for name in sorted(files - wanted.keys())]
    for name in sorted(files & wanted.keys()):
        size = starts[name].size_bytes if name in starts else None
        try:
            if sha256_file(folder / name, size_bytes=size) != wanted[name]:
                found.append(f"{name}: content changed, it is not what {SUMS} says")
        except OSError as error:
            found.append(f"{name}: cannot be read: {error.strerror}")
    return found


def _below(folder: Path | str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(path below the folder, what it is) of all but folders that hold something."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_symlink():
                yield name, "a symbolic link"
            elif entry.is_dir():
                yield from list(_below(entry.path, f"{name}/")) or [(f"{name}/", _EMPTY)]
            else:
                yield name, _FILE if entry.is_file() else "a device, pipe or socket"


def _sums(folder: Path) -> tuple[dict[str, str], list[str]]:
    """{name: digest} of SHA256SUMS, and what in it a run would not have written."""
    text = (folder / SUMS).read_bytes().decode("utf-8", "surrogateescape")
    pairs = re.findall(r"^([0-9a-f]{64})  ([^\n]+)\n", text, re.MULTILINE)
    wanted = {name: digest for digest, name in pairs}
    written = "".join(f"{digest}  {name}\n" for name, digest in sorted(wanted.items()))
    return wanted, [] if written == text else [f"{SUMS}: content changed, no run writes it so"]


def _starts(folder: Path) -> dict[str, Growing]:
    """The growing logs of run.json; none when it is not to be read, which its digest tells."""
    try:
        return records.load(folder).growing
    except KeyelabError:
        return {}


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
