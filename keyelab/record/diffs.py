"""Do the diffs in patches/ make the recorded tree? Applied by git to copies of the base's files."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import located, sha256_tree, shown
from keyelab.record.run import Run

_MOST = 5  # diffs whose order is tried out


class _Misfit(Exception):
    """The diffs do not make what they have to; the message says why."""


def patch_checks(folder: Path, run: Run, quick: bool = False) -> list[Check]:
    """Verdicts on the source's diffs, one by one and as a mailbox, and on the headers'.

    Unknown where the base tree or the corrected headers are not here, or git is not; `quick`
    does not look.
    """
    phases = {phase.phase: phase for phase in run.phases}
    source, headers = (phases[name] for name in ("source_patch", "header_fixes"))
    checks = []
    again = "leave out --quick" if quick else f"keyelab run --target {run.target} --to source_patch"
    skipped = (None, "skipped by --quick")
    if {"base_sha256", "tree_sha256"} <= (source.facts or {}).keys():
        workdir = located(str(source.parameters.get("workdir", {}).get("value", "work")))
        stored = workdir / "sources"
        ok, found = skipped if quick else _tree(folder / "patches", source.facts or {}, stored)
        checks.append(_verdict("source patches", ok, found, again))
    if (headers.facts or {}).get("overlay"):
        ok, found = skipped if quick else _headers(folder / "patches", headers.facts or {})
        checks.append(_verdict("header patches", ok, found, again))
    return checks


def _verdict(name: str, ok: bool | None, found: str, again: str) -> Check:
    remedy = again if ok is None else "the record contradicts itself"
    return check(name, ok, expected="the recorded digest from the base", found=found, remedy=remedy)


def _tree(patches: Path, facts: dict[str, Any], store: Path) -> tuple[bool | None, str]:
    base_sha256, wanted = str(facts["base_sha256"]), str(facts["tree_sha256"])
    base = store / re.sub(r"\W", "", base_sha256)[:12]
    if not base.is_dir():
        return None, f"the base tree is not here: {shown(base)}"
    named = {path: re.match(r"(\d+)-", path.name) for path in patches.glob("*.diff")}
    numbers = {path: int(match[1]) for path, match in named.items() if match}
    diffs = sorted(numbers, key=numbers.__getitem__)
    mails = [patches / "series.mbox"] if (patches / "series.mbox").is_file() else []
    try:
        for series in [diffs, mails] if mails else [diffs]:
            made = sha256_tree(base, replaced=_applied(base, series))
            if made != wanted:
                which = "series.mbox" if series is mails else f"{len(diffs)} diffs"
                raise _Misfit(f"{which} make tree {made}, run.json says {wanted}")
    except _Misfit as error:
        if sha256_tree(base) != base_sha256:
            return None, f"the base tree in {shown(base)} was edited; move it away"
        return False, str(error)
    except (OSError, KeyelabError) as error:
        return None, f"cannot be tried: {error}"
    return True, f"{len(diffs)} diffs make tree {wanted[:12]} of {base_sha256[:12]}"


def _headers(patches: Path, facts: dict[str, Any]) -> tuple[bool | None, str]:
    """Taken back, the diffs have to make the originals of the corrected headers."""
    overlay = located(str(facts["overlay"])) / "hip"
    if not overlay.is_dir():
        return None, f"the corrected headers are not here: {shown(overlay)}"
    if not sha256_tree(overlay).startswith(overlay.parent.name):
        return None, f"the corrected headers in {shown(overlay)} were edited; move them away"
    wanted = {name.removeprefix("hip/"): value for name, value in facts["originals"].items()}
    diffs = sorted(patches.glob("header-*.diff"))
    if len(diffs) > _MOST:
        return None, f"{len(diffs)} diffs, whose order is not recorded"
    why = ""
    for series in itertools.permutations(diffs):
        try:
            made = _applied(overlay, series, "--reverse")
        except _Misfit as error:
            why = why or str(error)
        except OSError as error:
            return None, f"cannot be tried: {error}"
        else:
            found = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
            if found == wanted:
                return True, f"{len(diffs)} diffs, taken back, make the {len(wanted)} originals"
            why = f"taken back they make {sorted(found.items())}, not {sorted(wanted.items())}"
    return False, why


def _applied(base: Path, diffs: Sequence[Path], *options: str) -> dict[str, bytes]:
    """{path: content} of the files of `base` that the diffs change, with them applied."""
    texts = [path.read_bytes() for path in diffs]
    heads = {name for text in texts for name in re.findall(rb"^--- a/(.+)$", text, re.MULTILINE)}
    root = base.resolve()
    names = [name for head in heads if _is_inside(root, name := os.fsdecode(head))]
    if not texts or not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="keyelab-diffs-") as copy:
        for name in names:
            path = Path(copy, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((base / name).read_bytes())
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", *options, "-"],
            cwd=copy,
            input=b"".join(texts),
            capture_output=True,
            check=False,
            # inside a repository git would pass over what is outside of its index
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(copy).parent), "LC_ALL": "C"},
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise _Misfit(f"they do not apply: {said}")
        return {name: Path(copy, name).read_bytes() for name in names}


def _is_inside(root: Path, name: str) -> bool:
    path = root / name
    return path.is_file() and path.resolve().is_relative_to(root)
