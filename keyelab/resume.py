"""Going on with a run that did not end well: a new run that takes over what still holds."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from keyelab import params as parameters
from keyelab import pipeline
from keyelab.errors import KeyelabError
from keyelab.files import project_root, redacted, sha256_file, shown
from keyelab.pipeline import PHASES, Plan, Say
from keyelab.record import interrupted, scratch, seal
from keyelab.record import run as records
from keyelab.record.run import NEWEST, PhaseRecord, Run
from keyelab.serving import run as servers


def resume(named: str, target: str, settings: Iterable[str], say: Say) -> tuple[Path, int]:
    """Close a run that was broken off and go on from it; returns the new folder and exit code.

    `named` is its folder or name, or NEWEST for the target's newest that did not end well. The new
    run has its parameters, and `settings` (PHASE.KEY=VALUE) on top.
    """
    source = chosen(named, target)
    run = records.load(source)
    last, given = asked(run)
    given += settings
    todo = pipeline.plan(run.target, None, last, overrides(given))
    _close(source, say)
    todo, why = _from_where(todo, source)
    first = todo.chosen[0] if todo.chosen else ""
    say(f"resume {shown(source)}" + (f" from {records.stem(first)}: {why}" if first else ""))
    command = ["keyelab", "run", "--target", run.target]
    command += [*(["--from", first] if todo.before and first else [])]
    command += [*(["--to", last] if last else []), *(w for s in given for w in ("--set", s))]
    try:
        return pipeline.run(todo, command, say, source)
    finally:
        for folder, earlier in _line(source):
            _end_servers(folder, earlier, say)


def close(named: str, target: str, say: Say) -> Path:
    """End the servers of a run that was broken off, and seal it; returns its folder."""
    folder = chosen(named, target)
    _close(folder, say, end_servers=True)
    return folder


def chosen(named: str, target: str) -> Path:
    """The run that is meant; raises KeyelabError when there is none or it ended well."""
    if named == NEWEST:
        return interrupted.resumable(target)
    places = [Path(named), *(project_root() / "records").glob(f"*/{Path(named).name}")]
    folder = next((one for one in places if (one / "run.json").exists()), None)
    if folder is None:
        raise KeyelabError(f"expected a run at {named}, found none", "ls -d records/*/*")
    folder = folder.resolve()
    run = records.load(folder)
    if interrupted.state(folder, run) == "ended" and (
        run.status in ("passed", "warned") or run.dry_run
    ):
        found = "a dry run" if run.dry_run else run.status
        raise KeyelabError(
            f"expected a run that did not end well, found {shown(folder)}: {found}",
            f"keyelab run --target {run.target}",
        )
    return folder


def overrides(settings: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{phase: {key: value}} of PHASE.KEY=VALUE texts; raises UsageError."""
    found: dict[str, dict[str, Any]] = {}
    for text in settings:
        phase, key, value = parameters.parse_override(text)
        found.setdefault(phase, {})[key] = value
    return found


def asked(run: Run) -> tuple[str | None, list[str]]:
    """The last phase and the settings that a run's command asked for."""
    last, settings = None, []
    for word, value in zip(run.command, run.command[1:], strict=False):
        if word == "--to":
            last = value
        if word == "--set":
            settings.append(value)
    if lost := next((one for one in settings if "[redacted]" in one), None):
        raise KeyelabError(
            f"expected the settings of {run.run_id}, found one that was not recorded: {lost}",
            "give it again: " + shlex.join(["keyelab", "run", *run.command[2:]]),
        )
    return last, settings


def lines(targets: Iterable[str]) -> Iterator[dict[str, str]]:
    """The runs that do not go on and that nobody has closed, and what to type."""
    for target in targets:
        for folder, run, why in interrupted.unsealed(target):
            phase = next((p for p in run.phases if p.started and p.status == "not run"), None)
            yield {
                "run": shown(folder),
                "phase": phase.phase if phase else "",
                "why": why,
                "resume": f"keyelab run --resume {shown(folder)}",
                "close": f"keyelab run --close {shown(folder)}",
            }


def _close(folder: Path, say: Say, end_servers: bool = False) -> None:
    run = records.load(folder)
    if (folder / seal.SUMS).exists():
        return
    if end_servers:
        _end_servers(folder, run, say)
    run = interrupted.close(folder, lambda: servers.logs(_serve(run), folder))
    say(f"closed {shown(folder)}: {run.status}")


def _from_where(todo: Plan, source: Path) -> tuple[Plan, str]:
    """The plan without the phases that are taken over, and why its first one runs."""
    run = records.load(source)
    why = ""
    for start, _ in enumerate(todo.chosen):
        if why := _why(todo, run.phases[start], source):
            break
    else:
        start = len(todo.chosen)
    serve = PHASES.index("serve")
    if serve < start < len(todo.chosen) and records.asks_server(run.phases[start]):
        try:
            servers.require(source, run.target)
        except KeyelabError:
            start, why = serve, "its server is gone"
    return replace(todo, chosen=todo.chosen[start:], before=todo.chosen[:start]), why


def _why(todo: Plan, entry: PhaseRecord, source: Path) -> str:
    """Why a phase has to run (again); '' when its result holds."""
    if entry.status not in ("passed", "warned"):
        return f"it was {entry.status}" if entry.started else "it has not run"
    resolved = todo.parameters[entry.phase]
    if pipeline.inputs_digest(entry.phase, resolved, source) == entry.inputs_sha256:
        return ""
    if sha256_file(pipeline.source_notebook(entry.phase)) != entry.notebook_sha256:
        return "its notebook has changed"
    now = redacted(resolved.as_record())
    changed = [
        name
        for name in sorted(now.keys() | entry.parameters.keys())
        if now.get(name, {}).get("value") != entry.parameters.get(name, {}).get("value")
    ]
    if changed:
        return f"its parameters have changed: {' '.join(changed)}"
    return "keyelab itself or the facts before it have changed"


def _line(folder: Path) -> Iterator[tuple[Path, Run]]:
    """A run and those that it goes on from, as far as they are here."""
    while (folder / "run.json").exists():
        run = records.load(folder)
        yield folder, run
        if not run.resumes:
            return
        folder = folder.parent / run.resumes


def _end_servers(folder: Path, run: Run, say: Say) -> None:
    """Stop what it started, and remove its temporary files when nothing uses them any more."""
    servers.stop(_serve(run), folder, say)
    if not servers.logs(_serve(run), folder):
        scratch.remove(folder)


def _serve(run: Run) -> parameters.Resolved[Any] | None:
    """The parameters of 06_serve as a run recorded them."""
    given = run.phases[PHASES.index("serve")].parameters
    values: Any = SimpleNamespace(**{name: item["value"] for name, item in given.items()})
    return parameters.Resolved(values, {}) if given else None
