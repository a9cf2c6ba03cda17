"""One of two records: found by folder, run id or target, and read whatever keyelab wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import project_root, read_json, shown
from keyelab.record import seal
from keyelab.record.run import SCHEMA, latest


@dataclass(frozen=True)
class Side:
    """A record as far as it can be read; `doubts` say what a reader has to know of it first.

    `run` is run.json as it is: records of other schemas are read for what is known of them.
    """

    folder: Path
    run: dict[str, Any]
    doubts: list[str] = field(default_factory=list)

    @property
    def copied(self) -> bool:
        """Whether it is a copy made by keyelab share."""
        return bool(mapping(self.run.get("original")))

    @property
    def phases(self) -> dict[str, dict[str, Any]]:
        """What run.json says of each phase."""
        return {str(one.get("phase")): one for one in rows(self.run.get("phases"))}

    def facts(self, phase: str) -> dict[str, Any]:
        """The facts of a phase; empty when it has left none."""
        return mapping(self.phases.get(phase, {}).get("facts"))

    def text(self, name: str) -> str | None:
        """A text file of the record; None when it is not there."""
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def notebook(self, phase: str) -> list[str] | None:
        """The cells that a phase's notebook ran, without its parameters; None when not there."""
        name = self.phases.get(phase, {}).get("notebook")
        text = self.text(name) if isinstance(name, str) else None
        try:
            cells = rows(mapping(json.loads(text or "")).get("cells"))
        except ValueError:
            return None
        tags = ({*_texts(mapping(cell.get("metadata")).get("tags"))} for cell in cells)
        ours = (
            cell
            for cell, tag in zip(cells, tags, strict=True)
            if not any(one == "injected-parameters" or "papermill" in one for one in tag)
        )
        return ["".join(_texts(cell.get("source"))) for cell in ours]

    def packages(self) -> dict[str, str] | None:
        """Python packages by name with their versions; None when their list is not there."""
        text = self.text("env/pip-freeze.txt")
        if text is None:
            return None
        lines = (line.partition("==") for line in text.splitlines() if "==" in line)
        return {name: version for name, _, version in lines}

    def diffs(self) -> dict[str, str]:
        """The diffs that were applied, by the name of their rule."""
        found = sorted((self.folder / "patches").glob("*.diff"))
        texts = {path.stem: self.text(f"patches/{path.name}") or "" for path in found}
        return {name.lstrip("0123456789").lstrip("-"): text for name, text in texts.items()}


def read(name: str) -> Side:
    """The record that is meant by a folder, a run id or its beginning, or a target (its newest).

    Raises KeyelabError when there is none, more than one, or when it is no run record.
    """
    folder = _found(name)
    run = read_json(folder / "run.json")
    if not isinstance(run, dict) or not run.get("run_id") or not rows(run.get("phases")):
        raise KeyelabError(
            f"expected a keyelab run record in {shown(folder)}, found a run.json without run_id "
            "and phases"
        )
    return Side(folder, run, _doubts(folder, run))


def before(side: Side) -> Side:
    """The run of the same folder before this one; dry runs count only before a dry run."""
    older = sorted(
        path.parent
        for path in side.folder.resolve().parent.glob("*/run.json")
        if path.parent.name < side.folder.resolve().name
    )
    for folder in reversed(older):
        try:
            found = read(str(folder))
        except KeyelabError:  # a damaged record between them is none to compare with
            continue
        if bool(found.run.get("dry_run")) <= bool(side.run.get("dry_run")):
            return found
    raise KeyelabError(
        f"expected a run before {shown(side.folder)}, found none",
        "name two records: keyelab diff A B",
    )


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; none when it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


def _found(name: str) -> Path:
    path = Path(name)
    if path.is_file():
        if path.name not in ("run.json", "index.html"):
            raise KeyelabError(
                f"expected a run folder at {shown(path)}, found a file",
                f"unzip it first: unzip {name} -d FOLDER" if path.suffix == ".zip" else "",
            )
        path = path.parent
    if path.is_dir() and (path / "run.json").exists():
        return path
    records = project_root() / "records"
    below = sorted(records.glob("*/*/run.json")) if name and "/" not in name else []
    of_target = [one.parent for one in below if one.parts[-3] == name]
    if of_target:
        return latest(name) or of_target[-1]
    matching = [one.parent for one in below if one.parts[-2].startswith(name)]
    if len(matching) == 1:
        return matching[0]
    found = f"{len(matching)} that begin so" if matching else "none"
    if path.is_dir():
        found = "a folder without run.json"
    raise KeyelabError(
        f"expected a run folder, a run id or a target with runs, found {found}: {name!r}",
        f"ls -d {shown(records)}/*/*",
    )


def _doubts(folder: Path, run: dict[str, Any]) -> list[str]:
    said: list[str] = []
    if (schema := run.get("schema_version")) != SCHEMA:
        said.append(f"has schema {schema}, this keyelab knows {SCHEMA}: it is read as far as known")
    if run.get("status") == "running":
        said.append("was never sealed: it still runs, or was killed")
    elif not (folder / seal.SUMS).exists():
        said.append(f"was never sealed: it has no {seal.SUMS}")
    else:
        try:
            edits = seal.edits(folder)
        except (KeyelabError, OSError) as error:
            edits = [str(error).splitlines()[0]]
        if edits:
            more = f" and {len(edits) - 1} more" if len(edits) > 1 else ""
            said.append(f"was edited after it was sealed: {edits[0]}{more}")
    if run.get("dry_run"):
        said.append("is a dry run: plans were shown and nothing was done")
    if origin := mapping(run.get("original")).get("run_id"):
        said.append(f"is a shared copy of {origin}: names and paths in it were replaced")
    if mapping(run.get("tool")).get("dirty"):
        said.append("was made with local changes: its commit does not tell all of the code")
    return said
