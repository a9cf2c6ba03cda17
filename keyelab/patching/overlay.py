"""Corrected copies of toolkit headers in an include folder of our own, to be searched first.

The toolkit is only read. The overlay also holds the headers that lead to a corrected one, since
a quoted include is looked up beside the file that includes it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import KeyelabError
from keyelab.files import (
    read_json,
    sha256_file,
    sha256_json,
    sha256_tree,
    shown,
    write_bytes,
    write_json,
)
from keyelab.patching.plan import DoesNotFit, Outcome, Plan, make_plan
from keyelab.patching.rule import Rule

_INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_PLACES = ("include", "hip/include", ".")


@dataclass(frozen=True)
class HeaderPlan:
    """What would go into the overlay, or the reason why nothing has to.

    `originals` are the SHA-256 of the toolkit's files, by path below its include folder;
    `companions` are headers copied unchanged.
    """

    include: Path | None
    plan: Plan | None
    originals: dict[str, str]
    companions: tuple[str, ...]
    reason: str

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The rules that change something, in order."""
        every = self.plan.outcomes if self.plan else ()
        return tuple(outcome for outcome in every if outcome.diff)

    @property
    def folder_name(self) -> str:
        """The overlay's name: a digest of the originals and of what is made of them."""
        made = self.plan.digest if self.plan else ""
        return sha256_json([self.originals, made])[:12]


def plan_headers(headers_root: Path | None, rules: Sequence[Rule]) -> HeaderPlan:
    """Look for the headers under a toolkit root and plan their correction; writes nothing.

    Raises KeyelabError when the root is not there, DoesNotFit when a rule does not fit.
    """
    if headers_root is None:
        return _nothing("no toolkit headers on this target")
    root = headers_root.resolve()
    if not root.is_dir():
        raise KeyelabError(
            f"expected a toolkit folder at {shown(headers_root)}, found none",
            "set header_fixes.headers_root to the toolkit's root, or to '' where there is none",
        )
    wanted = [file for rule in rules for file in rule.applies_to]
    include = next((root / p for p in _PLACES if (root / p / wanted[0]).is_file()), None)
    if include is None:
        return _nothing(f"{shown(headers_root)} has no {wanted[0]}")
    try:
        plan = make_plan(include, rules).require()
    except DoesNotFit as error:
        raise DoesNotFit(
            error.message,
            "set header_fixes.headers_root to '': with the rule softmax-no-cooperative-groups "
            "ggml does not include this header",
        ) from None
    if not plan.after:
        return _nothing(f"the headers of {shown(headers_root)} need no correction")
    companions = leading_to(include, list(plan.after))
    originals = {file: sha256_file(include / file) for file in (*plan.after, *companions)}
    return HeaderPlan(include, plan, originals, tuple(companions), "")


def leading_to(include: Path, files: Sequence[str]) -> list[str]:
    """The headers under `include`/hip that include one of `files`, directly or through others."""
    top = include / files[0].split("/")[0]
    reads: dict[str, set[str]] = {}
    for path in sorted(p for p in top.rglob("*") if p.suffix in (".h", ".hpp") and p.is_file()):
        named = {match.decode() for match in _INCLUDE.findall(path.read_bytes())}
        places = (path.parent, include)
        targets = {(place / name).resolve() for name in named for place in places}
        inside = {t.relative_to(include).as_posix() for t in targets if t.is_relative_to(include)}
        reads[path.relative_to(include).as_posix()] = inside
    reached = set(files)
    while more := {file for file, others in reads.items() if others & reached} - reached:
        reached |= more
    return sorted(reached - set(files))


def make_overlay(wanted: HeaderPlan, workdir: Path) -> Path:
    """Write the overlay and return its include folder; one that is there and whole is kept.

    Raises KeyelabError when an original changed meanwhile or the overlay was edited.
    """
    if wanted.plan is None or wanted.include is None:
        raise ValueError("there is nothing to overlay")
    folder = workdir / "overlays" / wanted.folder_name
    manifest = folder / "manifest.json"
    partial = None
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
        try:
            for file in wanted.companions:
                write_bytes(partial / "include" / file, (wanted.include / file).read_bytes())
            for file, content in wanted.plan.after.items():
                write_bytes(partial / "include" / file, content)
            record = {
                "include": shown(wanted.include),
                "originals": wanted.originals,
                "changed": sorted(wanted.plan.after),
                "overlay_sha256": sha256_tree(partial / "include"),
            }
            write_json(partial / manifest.name, record)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    _check(wanted, folder)
    return folder / "include"


def remove_overlay(include: Path) -> None:
    """Take an overlay away: the inverse of `make_overlay`, since the toolkit was never changed."""
    if not (include.parent / "manifest.json").is_file():
        raise KeyelabError(f"expected an overlay made by keyelab at {shown(include)}, found none")
    shutil.rmtree(include.parent)


def untouched(wanted: HeaderPlan) -> bool:
    """True when the toolkit's headers still have the digests that they were read with."""
    if wanted.include is None:
        return True
    include = wanted.include
    return all(sha256_file(include / f) == digest for f, digest in wanted.originals.items())


def _check(wanted: HeaderPlan, folder: Path) -> None:
    record = read_json(folder / "manifest.json")
    found = sha256_tree(folder / "include")
    if found != record["overlay_sha256"] or record["originals"] != wanted.originals:
        raise KeyelabError(
            f"expected overlay {record['overlay_sha256'][:12]} in {shown(folder)}, "
            f"found {found[:12]}: it was edited",
            f"make it anew: rm -r {shown(folder)}",
        )


def _nothing(reason: str) -> HeaderPlan:
    return HeaderPlan(None, None, {}, (), reason)
