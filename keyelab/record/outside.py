"""The files that a record names and does not hold: model, headers, binaries, video."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import located, read_json, sha256_file
from keyelab.record.run import Run

Say = Callable[[str], None]
_INCLUDE = ("include", "hip/include", ".")  # where a toolkit has its folder hip/
_TELL_BYTES = 1 << 32


@dataclass(frozen=True)
class Named:
    """A file that facts name: what it belongs to, its path as recorded, its digest."""

    group: str
    path: str
    sha256: str


def outside_checks(folder: Path, run: Run, quick: bool, say: Say) -> list[Check]:
    """A verdict for each group of files; one that is not here, or skipped, is unknown.

    All are read whole (57 GB take minutes); `say` hears how far that is. `quick` reads none.
    """
    groups: dict[str, list[Named]] = {}
    for file in named(folder, run):
        groups.setdefault(file.group, []).append(file)
    return [
        _verdict(group, len(files), [], [], "skipped by --quick")
        if quick
        else _compared(group, files, folder, run, say)
        for group, files in groups.items()
    ]


def named(folder: Path, run: Run) -> Iterator[Named]:
    """The files outside of a record that its facts give a digest for."""
    facts = {phase.phase: phase.facts or {} for phase in run.phases}
    parameters = {phase.phase: phase.parameters for phase in run.phases}
    for role in ("model", "mmproj"):
        yield from _fact("model files", facts["model_fetch"].get(role))
    headers = facts["header_fixes"]
    if headers.get("backup"):
        yield from _in_place(_here(str(headers["backup"]), folder, run))
    elif headers.get("originals"):
        root = str(parameters["header_fixes"].get("headers_root", {}).get("value", ""))
        for name, digest in headers["originals"].items():
            paths = [f"{root}/{place}/{name}" for place in _INCLUDE]
            there = [path for path in paths if located(path).is_file()]
            yield Named("toolkit headers", (there or paths)[0], digest)
    for file in facts["build"].get("binaries", {}).values():
        yield from _fact("binaries", file)
    yield from _fact("video", facts["video_test"].get("video"))


def _fact(group: str, fact: Any) -> Iterator[Named]:
    if isinstance(fact, dict) and {"path", "sha256"} <= fact.keys():
        yield Named(group, str(fact["path"]), str(fact["sha256"]))


def _in_place(backup: Path) -> Iterator[Named]:
    """Headers that were corrected where they are have the digest that the backup notes."""
    try:
        files = read_json(backup / "headers.json")["files"]
    except KeyelabError:
        return
    for entry in files.values():
        yield Named("toolkit headers", entry["path"], entry["after"])


def _here(path: str, folder: Path, run: Run) -> Path:
    """Where a recorded path is now; what was in the run's own folder is in this one."""
    _, own, rest = path.partition(f"{run.run_id}/")
    return folder / rest if own else located(path)


def _compared(group: str, files: list[Named], folder: Path, run: Run, say: Say) -> Check:
    changed, absent, done = [], [], 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if done // _TELL_BYTES > (done - count) // _TELL_BYTES:
            say(f"{group}: {done / 1e9:.1f} GB read")

    for file in files:
        path = _here(file.path, folder, run)
        try:
            found = sha256_file(path, on_bytes) if path.is_file() else ""
        except OSError:
            found = ""
        if not found:
            absent.append(file.path)
        elif found != file.sha256:
            changed.append(f"{file.path}: expected sha256 {file.sha256}, found {found}")
    return _verdict(group, len(files), changed, absent)


def _verdict(
    group: str, count: int, changed: list[str], absent: list[str], skipped: str = ""
) -> Check:
    files = f"{count} file{'s' if count != 1 else ''}"
    missing = f"not here: {', '.join(absent[:3])}" + (f" and {len(absent) - 3} more") * (
        len(absent) > 3
    )
    return check(
        group,
        False if changed else None if absent or skipped else True,
        expected=f"{files} with the recorded digests",
        found="; ".join(changed)
        or (f"{files} {skipped}" if skipped else missing if absent else f"{files} as recorded"),
        remedy="they are not those of the run any more"
        if changed
        else "leave out --quick"
        if skipped
        else "verify where the run was made",
    )
