"""A toolkit's headers corrected where they are: only known ones, with a backup and the way back.

The backup is a folder of its own below the one that is asked for:

    headers.json   schema, files: {path below hip/: {path, before, after}} (SHA-256)
    hip/…          the originals
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import (
    located,
    read_json,
    sha256_file,
    sha256_json,
    shown,
    write_bytes,
    write_json,
)
from keyelab.params import read_yaml
from keyelab.patching.exchange import flush, write_new
from keyelab.patching.obstacle import unwritable
from keyelab.patching.plan import Plan
from keyelab.patching.recipe import patches

INDEX = "headers.json"
Files = Mapping[str, Mapping[str, str]]


def correct_in_place(plan: Plan, root: Path, store: Path, accept_sha256: str = "") -> Path:
    """Write a plan's corrections into a toolkit; returns the folder of the backup in `store`.

    Raises KeyelabError before anything is written for an original that is neither in
    patches/known_headers.yaml nor `accept_sha256`, for one outside of `root` and for one that
    cannot be written. Each file is replaced at once.
    """
    known = {*read_yaml(patches() / "known_headers.yaml"), accept_sha256.lower()}
    files = {}
    for file, new in plan.after.items():
        path = (plan.tree / file).resolve()
        before = sha256_file(path)
        if not path.is_relative_to(root.resolve()):
            raise KeyelabError(
                f"expected {file} inside of {shown(root)}, found a link to {shown(path)}",
                "set header_fixes.headers_root to the toolkit that this file belongs to",
            )
        if before not in known:
            raise KeyelabError(
                f"expected a known original at {shown(path)}, found sha256 {before}",
                "look at the diff above; to have it edited: "
                f"--set header_fixes.accept_sha256={before}",
            )
        _require_writable(path)
        after = hashlib.sha256(new).hexdigest()
        files[file] = {"path": shown(path), "before": before, "after": after}
    backup = store / sha256_json(files)[:12]
    for file in files:
        write_bytes(backup / plan.tree.name / file, (plan.tree / file).read_bytes())
    write_json(backup / INDEX, {"schema": 1, "folder": plan.tree.name, "files": files})
    for file, entry in files.items():
        _replace(located(entry["path"]), plan.after[file])
    return backup


def restore(backup: Path) -> list[Path]:
    """Put the originals of a backup back and return those that were not there already.

    Raises KeyelabError, before anything is written, for a file that was edited or replaced since
    and for an original that is not the one kept.
    """
    index = read_json(backup / INDEX)
    originals = {}
    for file, entry in index["files"].items():
        path, original = located(entry["path"]), backup / index["folder"] / file
        found = sha256_file(path) if path.is_file() else "no file"
        if found == entry["before"]:
            continue
        if found != entry["after"]:
            raise KeyelabError(
                f"expected {shown(path)} as it was corrected, found it changed since: {found}",
                f"look at the two: diff {shown(original)} {shown(path)}",
            )
        if sha256_file(original) != entry["before"]:
            raise KeyelabError(
                f"expected the original in {shown(original)}, found another file",
                "install the toolkit's header again from the vendor's package",
            )
        _require_writable(path)
        originals[path] = original.read_bytes()
    for path, content in originals.items():
        _replace(path, content)
    return list(originals)


def _require_writable(path: Path) -> None:
    for place in (path, path.parent):
        reason = unwritable(place)
        if reason:
            raise KeyelabError(
                f"expected to be able to change {shown(place)}, found that {reason}",
                "take header_fixes.mode overlay, which writes nothing there",
            )


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.keyelab")
    new.unlink(missing_ok=True)  # of a killed run
    try:
        write_new(new, content, path)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    flush(path.parent)
