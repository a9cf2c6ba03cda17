"""What a recipe applied in place leaves in TREE/.keyelab: enough for the way back.

    patch.json   schema, recipe, base_sha256, tree_sha256, files: {path: {before, after}} (SHA-256)
    patch.diff   all changes as one unified diff
    before/      the originals of the changed files

It is complete before the tree changes. Whether the tree is the old or the new one is never noted:
it is read from the digests of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from keyelab.errors import KeyelabError
from keyelab.files import STATE, read_json, sha256_file, shown, write_json
from keyelab.patching.exchange import flush, remove, write_new
from keyelab.patching.plan import unified


@dataclass(frozen=True)
class Patch:
    """A recipe applied in place: the digests of the tree and of each changed file."""

    recipe: str
    base_sha256: str
    tree_sha256: str
    files: Mapping[str, Mapping[str, str]]
    schema: int = 1


@dataclass(frozen=True)
class Status:
    """`pristine` (as far as TREE/.keyelab knows), `patched`, or `edited`: those files since."""

    kind: Literal["pristine", "patched", "edited"]
    patch: Patch | None = None
    edited: tuple[str, ...] = ()

    def require_unedited(self, tree: Path) -> None:
        """Raise KeyelabError when files that the recipe changed have been edited since."""
        if self.patch and self.edited:
            raise KeyelabError(
                f"expected the files of recipe {self.patch.recipe} in {shown(tree)} as it left "
                f"them, found edited since: {', '.join(self.edited)}",
                "undo those edits; or keep the tree as it is and give up the way back: "
                f"rm -r {shown(tree / STATE)}",
            )


def status(tree: Path) -> Status:
    """Which tree this is, by the files that the recipe in TREE/.keyelab changed."""
    path = tree / STATE / "patch.json"
    if not path.exists():
        return Status("pristine")
    try:
        patch = Patch(**read_json(path))
        if patch.schema != Patch.schema:
            raise TypeError(f"schema {patch.schema}")
        found = {file: digest(tree / file) for file in patch.files}
        old = [file for file, sha256 in patch.files.items() if found[file] == sha256["before"]]
        new = [file for file, sha256 in patch.files.items() if found[file] == sha256["after"]]
    except (TypeError, AttributeError, KeyError) as error:
        raise KeyelabError(
            f"expected what keyelab patch wrote in {shown(path)}, found other content: {error}",
            f"look at it, then: rm -r {shown(path.parent)}",
        ) from None
    if len(new) == len(found):
        return Status("patched", patch)
    if len(old) == len(found):
        return Status("pristine", patch)
    # a file that was put back by hand counts as edited too
    return Status("edited", patch, tuple(sorted(set(found) - set(new))))


def whole_diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """All changes as one unified diff, by file name."""
    names = sorted(after)
    return "".join(unified(name, before[name].decode(), after[name].decode()) for name in names)


def save(tree: Path, patch: Patch, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Write TREE/.keyelab; `before` and `after` are the contents of the files that change."""
    folder = tree / STATE
    contents = {f"before/{file}": old for file, old in before.items()}
    contents["patch.diff"] = whole_diff(before, after).encode()
    contents[".gitignore"] = b"*\n"  # git does not show the folder
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_new(folder / name, content)
    # the last one: without it there is nothing to go back from
    write_json(folder / "patch.json", asdict(patch))
    flush(folder)


def originals(tree: Path, patch: Patch) -> dict[str, bytes]:
    """The contents before the recipe; raises KeyelabError when they are not those any more."""
    folder = tree / STATE / "before"
    for file, sha256 in patch.files.items():
        if digest(folder / file) != sha256["before"]:
            raise KeyelabError(
                f"expected the original of {file} in {shown(folder)}, found another file",
                f"git -C {shown(tree)} checkout -- {file}",
            )
    return {file: (folder / file).read_bytes() for file in patch.files}


def sweep(tree: Path) -> Status:
    """The status of the tree, and what a killed run has left beside it removed."""
    now = status(tree)
    remove(tree / STATE / "next")
    if now.kind == "pristine":
        # first, so that no half of the originals is ever taken for the way back
        (tree / STATE / "patch.json").unlink(missing_ok=True)
        remove(tree / STATE)
    return now


def digest(path: Path) -> str:
    """SHA-256 of a file, hex; '' when there is none."""
    return sha256_file(path) if path.is_file() else ""
