"""All runs of a folder on one page: how they ended, what failed how often, how fast they were."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from keyelab.errors import KeyelabError
from keyelab.files import redacted, shown, write_text
from keyelab.record import run as records
from keyelab.record.fault import Fault
from keyelab.record.found import DEPTH, run_folders
from keyelab.record.row import Row, read
from keyelab.record.template import render
from keyelab.record.trend import Trend, measured, trend

MARK = '<meta name="generator" content="keyelab report">'
_PRINTED = 20  # runs in a terminal


@dataclass(frozen=True)
class Seen:
    """A failure over all counted runs."""

    fault: Fault  # of the newest run that has it
    phases: list[str]
    rows: list[Row]  # newest first

    def __str__(self) -> str:
        times = "once" if len(self.rows) == 1 else f"{len(self.rows)} times"
        return f"seen {times}, first {self.rows[-1].started[:10]}"


@dataclass(frozen=True)
class Index:
    """The runs of a folder, newest first, and their failures, most frequent first."""

    folder: Path
    rows: list[Row]
    seen: dict[str, Seen]

    @property
    def counts(self) -> dict[str, int]:
        """How many counted runs ended how."""
        return dict(Counter(row.status for row in self.rows if row.counted))

    @property
    def trends(self) -> list[Trend]:
        """The speed trend of each target that has one."""
        targets = sorted({row.target for row in self.rows if row.counted})
        return [one for name in targets if (one := trend(name, self.rows, self.folder))]

    def name(self, row: Row) -> str:
        """The path of a run below the folder."""
        return self.below(row.folder)

    def below(self, path: Path) -> str:
        """A path as seen from the folder."""
        return path.relative_to(self.folder).as_posix()


def gather(folder: Path) -> Index:
    """Read every run below a folder; raises KeyelabError when there is none."""
    rows = [read(path) for path in run_folders(folder)]
    if not rows:
        raise KeyelabError(
            f"expected run folders at most {DEPTH} folders below {shown(folder)}, found none",
            "keyelab run; or unzip shared copies, each into a folder of its own",
        )
    rows.sort(key=lambda row: (row.started, row.run_id, row.folder), reverse=True)
    _mark_twins(rows)
    seen: dict[str, Seen] = {}
    for row in rows:
        if row.counted and row.fault and row.fault.kind != "interrupted":
            one = seen.setdefault(row.fault.key, Seen(row.fault, [], []))
            one.rows.append(row)
            if row.fault.phase not in one.phases:
                one.phases.append(row.fault.phase)
    often = sorted(seen.items(), key=lambda item: -len(item[1].rows))
    return Index(folder, rows, dict(often))


def _mark_twins(rows: list[Row]) -> None:
    """Of one run that is there several times, count the sound original, else the first by path."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        if row.run_id:
            runs.setdefault(row.original or row.run_id, []).append(row)
    for same in runs.values():
        first, *others = sorted(same, key=_rank)
        for row in others:
            row.twin = first.folder


def _rank(row: Row) -> tuple[bool, bool, bool, Path]:
    return row.edited, bool(row.original), row.folder.name != row.run_id, row.folder


def write(index: Index, output: Path) -> Path:
    """Write the page; raises KeyelabError where that would spoil something."""
    inside = next((one for one in output.absolute().parents if (one / "run.json").exists()), None)
    if inside:
        raise KeyelabError(
            f"expected a file outside of run folders, found {shown(output)}: "
            "a record with a file more does not verify",
            f"keyelab report {shown(index.folder)} -o FILE.html",
        )
    try:
        if output.exists() and MARK not in output.read_text("utf-8", "replace")[:2000]:
            raise KeyelabError(
                f"expected no file or an older index at {shown(output)}, found something else",
                f"keyelab report {shown(index.folder)} -o FILE.html",
            )
        return write_text(output, page(index, output))
    except OSError as error:
        raise KeyelabError(
            f"expected to write {shown(output)}, found: {error.strerror or error}",
            f"keyelab report {shown(index.folder)} -o FILE.html",
        ) from None


def page(index: Index, output: Path) -> str:
    """The page; runs below its folder are linked."""
    folder = output.absolute().parent

    def link(row: Row) -> str:
        file = row.folder.absolute() / "index.html"
        near = row.status != "unreadable" and file.is_relative_to(folder) and file.is_file()
        return quote(os.path.relpath(file, folder)) if near else ""

    return render(
        "runs.html.j2",
        index=index,
        link=link,
        title=shown(index.folder),
        summary=summary(index),
        trends=index.trends,
        made=records.now(),
        measured=measured,
    )


def lines(index: Index) -> Iterator[str]:
    """The runs for a terminal: the newest, the failures, what could not be read."""
    for row in index.rows[:_PRINTED]:
        speed = f"{row.speed.decode_tps:.4g} t/s" if row.speed else ""
        took = f"{row.duration_s:.0f} s" if row.duration_s is not None else ""
        yield f"{row.status:12}{took:>8}{speed:>12}  {index.name(row)}{_aside(index, row)}".rstrip()
    if len(index.rows) > _PRINTED:
        yield f"… and {len(index.rows) - _PRINTED} older"
    for one in index.seen.values():
        yield f"{one.fault.id or 'not in the catalogue'} ({', '.join(one.phases)}): {one}"
        yield f"  {one.fault.title}"
    yield summary(index)


def _aside(index: Index, row: Row) -> str:
    said = [*(["dry run"] if row.dry_run else []), *row.notes]
    if row.twin:
        said.append(f"the same run as {index.below(row.twin)}")
    return f" ({'; '.join(said)})" if said else ""


def summary(index: Index) -> str:
    """How many runs there are, and how many are not counted."""
    counts = index.counts
    parts = [f"{count} {status}" for status, count in sorted(counts.items())]
    aside = {
        "dry": sum(row.dry_run for row in index.rows),
        "copies of runs that are here": sum(row.twin is not None for row in index.rows),
        "edited": sum(row.edited and row.twin is None for row in index.rows),
        "unreadable": sum(row.status == "unreadable" for row in index.rows),
    }
    left = [f"{count} {what}" for what, count in aside.items() if count]
    total = sum(counts.values())
    head = f"{total} run{'s' if total != 1 else ''}: {', '.join(parts)}" if total else "no run"
    return head + (f"; not counted: {', '.join(left)}" if left else "")


def as_json(index: Index) -> dict[str, Any]:
    """The index as plain values; `schema` is 1."""

    def plain(row: Row) -> dict[str, Any]:
        values = {
            name: value
            for name, value in vars(row).items()
            if name not in ("folder", "twin", "speed", "fault")
        }
        return {
            **values,
            "path": index.name(row),
            "counted": row.counted,
            "twin": index.below(row.twin) if row.twin else None,
            "speed": vars(row.speed) if row.speed else None,
            "fault": vars(row.fault) if row.fault else None,
        }

    found: dict[str, Any] = redacted(
        {
            "schema": 1,
            "folder": shown(index.folder),
            "counts": index.counts,
            "runs": [plain(row) for row in index.rows],
            "failures": [
                {
                    "key": key,
                    "id": one.fault.id,
                    "title": one.fault.title,
                    "count": len(one.rows),
                    "first": one.rows[-1].started,
                    "last": one.rows[0].started,
                    "runs": [index.name(row) for row in one.rows],
                }
                for key, one in index.seen.items()
            ],
        }
    )
    return found
