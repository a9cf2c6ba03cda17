"""What 03_header_fixes shows, checks and leaves as facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.facts import HeaderFacts
from keyelab.files import located, sha256_file, shown
from keyelab.params import HeaderFixes
from keyelab.patching.overlay import HeaderPlan, untouched
from keyelab.patching.rule import Rule
from keyelab.patching.verify import post_conditions


def root(params: HeaderFixes) -> Path | None:
    """The toolkit root of the parameters; None when there is none."""
    return located(params.headers_root) if params.headers_root else None


def summary(wanted: HeaderPlan) -> str:
    """One markdown line: what was found and what would be made of it."""
    if wanted.plan is None or wanted.include is None:
        return f"Nothing to correct: {wanted.reason}."
    count = len(wanted.plan.after)
    along = f", copied with {len(wanted.companions)} that lead to it" if wanted.companions else ""
    specimen = " This is the specimen, not a vendor's header." if specimen_probe(wanted) else ""
    word = "header" if count == 1 else "headers"
    return f"{count} {word} to correct under `{shown(wanted.include)}`{along}.{specimen}"


def rows(wanted: HeaderPlan, include: Path) -> list[dict[str, str]]:
    """Each header of the overlay with the digest of the original and its own."""
    return [
        {
            "header": file,
            "original sha256": digest[:16],
            "overlay sha256": sha256_file(include / file)[:16],
        }
        for file, digest in wanted.originals.items()
    ]


def checks(wanted: HeaderPlan, include: Path, rules: Sequence[Rule]) -> list[Check]:
    """Originals untouched, corrections in the overlay."""
    return [
        check(
            "toolkit headers untouched",
            untouched(wanted),
            expected=", ".join(f"{digest[:12]}" for digest in wanted.originals.values()),
            found="the same digests" if untouched(wanted) else "other digests",
            remedy="something else edits the toolkit: run this phase again when it is quiet",
        ),
        *post_conditions(include, rules),
    ]


def specimen_probe(wanted: HeaderPlan) -> Path | None:
    """The probe that comes with the specimen, when that is what was read."""
    probe = wanted.include.parent / "probe.cpp" if wanted.include else None
    return probe if probe and probe.is_file() else None


def facts(wanted: HeaderPlan, include: Path | None) -> HeaderFacts | None:
    """The overlay for 05_build, or the reason why there is none; None after a dry run."""
    if wanted.plan is None:
        return HeaderFacts(reason=wanted.reason)
    if include is None:
        return None
    return HeaderFacts(overlay=shown(include), files=sorted(wanted.originals))
