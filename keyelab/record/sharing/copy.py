"""The copy of a record: every file read, its names replaced, and the whole sealed anew."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, shown, write_bytes
from keyelab.record import binding, seal
from keyelab.record.run import Original, Run, load
from keyelab.record.sharing.book import scrub_book, source
from keyelab.record.sharing.picture import clean_png, is_png
from keyelab.record.sharing.report import REPORT, report
from keyelab.record.sharing.scrub import Scrubber

PICTURES_OF = "07_"  # files and notebook of the phase that shows the video
_BINARY = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
FREEZE = "env/pip-freeze.txt"


@dataclass
class Shared:
    """A copy: its folder, how often (kind, alias, file) was written, and {file: why left out}."""

    folder: Path
    used: dict[tuple[str, str, str], int]
    left_out: dict[str, str] = field(default_factory=dict)


def share(folder: Path, into: Path, pictures: bool = True) -> Shared:
    """Copy a sealed record to `into`/<run id> with aliases for what is personal, and seal it.

    Without `pictures` those of the video are left out. The original stays as it is. Raises
    KeyelabError when it still runs or was edited.
    """
    run = load(folder)
    if run.status == "running":
        raise KeyelabError(
            f"expected a run that has ended in {shown(folder)}, found it running",
            f"wait for it, or if it was killed: keyelab run --target {run.target}",
        )
    seal.require_intact(folder)
    files = _contents(folder, run)
    scrubber = Scrubber()
    _scrubbed(files, run, scrubber, pictures)
    scrubber.learnt()
    copied, left_out = _scrubbed(files, run, scrubber, pictures)
    copy = Run.model_validate_json(copied.pop("run.json"))
    copy.original = run.original or Original(
        run_id=run.run_id, sums_sha256=sha256_file(folder / seal.SUMS)
    )
    copy.growing = {}
    if run.python_packages_sha256 and FREEZE in copied:
        copy.python_packages_sha256 = hashlib.sha256(copied[FREEZE]).hexdigest()
    shared = Shared(into / run.run_id, dict(scrubber.aliases.used), left_out)
    copied[REPORT] = report(copy, shared.used, left_out).encode()
    for name, content in copied.items():
        write_bytes(shared.folder / name, content)
    seal.seal(copy, shared.folder)
    return shared


def _contents(folder: Path, run: Run) -> dict[str, bytes]:
    """The sealed bytes of every file that is not made anew, by its path."""
    made = {"index.html", REPORT}
    made |= {
        PurePosixPath(phase.notebook).with_suffix(".html").as_posix()
        for phase in run.phases
        if (folder / phase.notebook).exists()
    }
    found = {}
    for name, path in sorted(seal.listed(folder).items()):
        if name not in made:
            with path.open("rb") as stream:
                grows = name in run.growing
                found[name] = stream.read(run.growing[name].size_bytes if grows else -1)
    return found


def _scrubbed(
    files: dict[str, bytes], run: Run, scrubber: Scrubber, pictures: bool
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files with aliases in names and contents, and {name: why} of those left out."""
    copied: dict[str, bytes] = {}
    left_out = {}
    for name, content in files.items():
        scrubber.file = scrubber.text(name)
        new_name = _free(scrubber.file.lstrip("/"), copied)
        scrubber.file = new_name
        shown_pictures = pictures or not PurePosixPath(name).name.startswith(PICTURES_OF)
        if is_png(content):
            new = clean_png(content) if shown_pictures else None
            why = "a broken picture" if shown_pictures else "a picture of the video"
        elif _BINARY.search(content):
            new, why = None, "not a text: nothing could be looked for in it"
        else:
            new, why = _edited(name, content, run, scrubber, shown_pictures), ""
        if new is None:
            left_out[new_name] = why
        else:
            copied[new_name] = new
    return copied, left_out


def _edited(name: str, content: bytes, run: Run, scrubber: Scrubber, pictures: bool) -> bytes:
    text = content.decode("utf-8", errors="surrogateescape")
    new = None
    try:
        if name.endswith(".ipynb"):
            own = _own_cells(name, run)
            book = scrub_book(json.loads(text), scrubber, own, pictures)
            new = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
        elif name.endswith(".json"):
            old = json.loads(text)
            value = scrubber.json(old, pictures=pictures)
            new = text if value == old else json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        elif name.endswith(".csv"):
            new = _table(text, scrubber)
    except (ValueError, LookupError, TypeError, AttributeError, csv.Error):
        pass  # not what its name says: a text
    if new is None:
        new = scrubber.text(text, "", pictures)
    return new.encode("utf-8", errors="surrogateescape")


def _table(text: str, scrubber: Scrubber) -> str:
    """CSV whose cells have the names of their columns as labels."""
    rows = list(csv.reader(io.StringIO(text)))
    heads = rows[0] if rows else []
    new = [
        [
            scrubber.text(cell, heads[i] if n and i < len(heads) else "")
            for i, cell in enumerate(row)
        ]
        for n, row in enumerate(rows)
    ]
    if new == rows:
        return text
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(new)
    return stream.getvalue()


def _own_cells(name: str, run: Run) -> set[tuple[str, str]]:
    """(id, source) of the cells of the committed notebook that was run, where it is at hand."""
    for phase in run.phases:
        if phase.notebook == name:
            text, _ = binding.source_of(run, phase)
            cells = json.loads(text)["cells"] if text else []
            return {(cell.get("id", ""), source(cell)) for cell in cells}
    return set()


def _free(name: str, taken: dict[str, bytes]) -> str:
    path, number = PurePosixPath(name), 2
    while name in taken:
        name = path.with_name(f"{path.stem}-{number}{path.suffix}").as_posix()
        number += 1
    return name
