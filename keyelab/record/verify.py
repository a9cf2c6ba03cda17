"""Is a record what the run left, and does it claim only what ran?

Everything is read again and held against everything else that tells of it: files and SHA256SUMS,
run.json and facts, notebooks and their cells, sources and the repository, diffs and trees, and
the files outside that are named by digest.

What cannot be found out: that somebody wrote a record anew in all its parts, with sums that fit.
For that it has to be signed. Nor does the log of a server that was left running prove more than
its start, nor do file modes, owners, times and empty folders; LATEST is no part of a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.errors import KeyelabError
from keyelab.files import read_json, redacted, sha256_file, shown
from keyelab.params import PARAMETERS
from keyelab.record import binding, cells, diffs, outside, seal, signature
from keyelab.record.cells import RAN
from keyelab.record.run import SCHEMA, PhaseRecord, Run, load, overall, stem

_ENDED = {"interrupted": "was interrupted", "warned": "passed with warnings"}
# what reading a notebook or facts of another shape raises
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
_CONTRADICTS = "the record contradicts itself; do not trust it"


def verify(
    folder: Path,
    *,
    quick: bool = False,
    signer: str | None = None,
    allowed: Path | None = None,
    say: outside.Say = lambda line: None,
) -> list[Check]:
    """Check a run folder; `quick` leaves out what is not in it.

    `signer` has to have signed it with a key that `allowed` names. Raises KeyelabError when the
    folder holds no run record that this keyelab can read.
    """
    run = _load(folder)
    signed = signature.signature_check(folder, signer, allowed)
    edited = seal.edits(folder)
    rest = f"; and {len(edited) - 5} more" if len(edited) > 5 else ""
    results = [
        check(
            "files as sealed",
            not edited,
            expected="every file as SHA256SUMS says",
            found="; ".join(edited[:5]) + rest or f"{len(seal.listed(folder))} files unchanged",
            remedy="get the record again from who made it; a record is never edited",
        ),
        check(
            "run ended",
            run.status != "running",
            expected="a final status",
            found=run.status if run.status != "running" else "still 'running': it was killed",
            remedy=f"keyelab run --target {run.target}",
        ),
    ]
    if run.status not in ("running", "interrupted"):
        results.append(
            check(
                "overall status",
                run.status == overall(run.phases),
                expected=overall(run.phases),
                found=run.status,
                remedy=_CONTRADICTS,
            )
        )
    results.append(_whole(folder, run))
    if results[-1].status != "ok" and [p.phase for p in run.phases] != list(PARAMETERS):
        return results  # of other phases nothing is known here
    notebooks: dict[str, dict[str, Any]] = {}
    for phase in run.phases:
        if phase.started:
            results.append(_of_phase(folder, run, phase, notebooks))
    try:
        results.append(binding.sources_check(run, notebooks))
        results += diffs.patch_checks(folder, run, quick)
        results += outside.outside_checks(folder, run, quick, say)
    except _MALFORMED as error:
        found = f"{type(error).__name__}: {error}"
        results.append(check("facts and cells", False, found=found, remedy=_CONTRADICTS))
    return [*results, signed] if signed else results


def sentence(results: list[Check]) -> str:
    """The verdict on a record in one sentence."""
    failed = [item.name for item in results if item.status == "failed"]
    if failed:
        return f"not verified: {len(failed)} of {len(results)} checks failed: {', '.join(failed)}"
    unknown = [item.name for item in results if item.status == "unknown"]
    open_ones = f"; unknown: {', '.join(unknown)}" if unknown else ""
    ended = next(item.found for item in results if item.name == "run ended")
    count = f"{len(results) - len(unknown)} of {len(results)} checks ok"
    return f"verified: a run that {_ENDED.get(ended, ended)}, {count}{open_ones}"


def _load(folder: Path) -> Run:
    path = folder / "run.json"
    if folder.exists() and not folder.is_dir():
        raise KeyelabError(
            f"expected the folder of a run at {shown(folder)}, found a file",
            "unpack it first, then name its folder",
        )
    if not path.is_file():
        raise KeyelabError(
            f"expected a file at {shown(path)}, found "
            + ("none: this is no run record" if folder.is_dir() else "no such folder"),
            "name a folder of records/<target>/, as keyelab report lists them",
        )
    content = read_json(path)
    schema = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise KeyelabError(
            f"expected a record of schema {SCHEMA} at most in {shown(folder)}, found {schema}: "
            "a newer keyelab made it",
            "get that keyelab: git pull",
        )
    return load(folder)


def _whole(folder: Path, run: Run) -> Check:
    """What run.json says of the run against itself and against what lies in the folder."""
    wrong = list(_disagreements(folder, run))
    return check(
        "record agrees with itself",
        not wrong,
        expected="one story in run.json and the files beside it",
        found="; ".join(wrong) or f"{len(run.phases)} phases, packages and times",
        remedy=_CONTRADICTS,
    )


def _disagreements(folder: Path, run: Run) -> Iterator[str]:
    names = [phase.phase for phase in run.phases]
    if names != list(PARAMETERS):
        yield f"its phases are {' '.join(names)}, not {' '.join(PARAMETERS)}"
        return
    packages = folder / "env" / "pip-freeze.txt"
    wanted = run.python_packages_sha256
    if wanted and not (packages.is_file() and sha256_file(packages) == wanted):
        yield "env/pip-freeze.txt is not the one that run.json names"
    for name in run.growing:
        if not (name.startswith("logs/") and "-server-" in name):
            yield f"{name} is no log of a server and cannot have been growing"
    if run.finished and run.duration_s is not None and run.status != "running":
        took = cells.seconds(run.finished) - cells.seconds(run.started)
        if abs(took - run.duration_s) > max(5.0, 0.05 * run.duration_s):
            yield f"it took {run.duration_s} s from {run.started} to {run.finished}"
    for phase in run.phases:
        if phase.notebook != f"{stem(phase.phase)}.ipynb":
            yield f"the notebook of {phase.phase} is named {phase.notebook}"
        if bool(phase.failure) != (phase.status in ("failed", "interrupted")):
            yield f"{phase.phase} {phase.status} with{'' if phase.failure else 'out'} a failure"
        if phase.status in RAN and not phase.started:
            yield f"{phase.phase} {phase.status} and never started"
        if phase.started and run.finished and run.status != "running":
            begun = cells.seconds(phase.started)
            late = begun > cells.seconds(run.finished)
            if late or (begun < cells.seconds(run.started) and not phase.reused_from):
                yield f"{phase.phase} started at {phase.started}, outside of the run"
        if not phase.started and run.status != "running":
            left = (f"{stem(phase.phase)}.ipynb", f"facts/{phase.phase}.json")
            found = [name for name in left if (folder / name).exists()]
            if found:
                yield f"{phase.phase} {phase.status}, but there is {' and '.join(found)}"


def _of_phase(
    folder: Path, run: Run, phase: PhaseRecord, notebooks: dict[str, dict[str, Any]]
) -> Check:
    """A phase's claim against its notebook and facts; the notebook is added to `notebooks`."""
    path = folder / f"{stem(phase.phase)}.ipynb"
    wrong = []
    try:
        if path.is_file():
            notebook = read_json(path)
            broken_off = bool(run.closed) or run.status == "interrupted"
            wrong += cells.contradictions(notebook, phase, broken_off)
            wrong += binding.parameter_contradictions(notebook, phase, run)
            notebooks[phase.phase] = notebook
        elif phase.status in RAN:
            wrong.append("the notebook is missing")
        wrong += _facts(folder / "facts" / f"{phase.phase}.json", phase)
    except (KeyelabError, *_MALFORMED) as error:
        kind = type(error).__name__
        said = error.message if isinstance(error, KeyelabError) else f"{kind}: {error}"
        wrong.append(f"not to be read as keyelab wrote it: {said}")
    return check(
        stem(phase.phase),
        not wrong,
        expected=f"a notebook that says {phase.status}",
        found="; ".join(wrong) or f"{phase.status}, as its cells say",
        remedy=_CONTRADICTS,
    )


def _facts(path: Path, phase: PhaseRecord) -> list[str]:
    """facts/<phase>.json is what run.json has of the phase; only one that finished has it."""
    if not path.is_file():
        return ["its facts are missing"] if phase.status in RAN else []
    if phase.status == "not run":
        return []  # interrupted before the run could tell
    if phase.status not in RAN and not (phase.failure and phase.failure.kind == "check"):
        return [f"it {phase.status} and has facts"]
    left = read_json(path)
    told = phase.model_dump(mode="json")
    names = ["status", "facts", "checks", *(["reason"] if phase.status in RAN else [])]
    differing = [n for n in names if redacted(left.get(n)) != redacted(told[n])]
    if differing:
        return [f"its facts differ from run.json: {', '.join(differing)}"]
    late = phase.duration_s is not None and left["duration_s"] > phase.duration_s + 1
    return [f"its facts took {left['duration_s']} s, longer than the phase"] if late else []
