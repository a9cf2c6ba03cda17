"""Runs phases in order and leaves a sealed record.

A phase needs the facts of others; its inputs digest (notebook, package, parameters, facts
needed) says whether an earlier run's result still holds. A resumed run is a new run that takes
over the phases before the one it starts from; a record is never edited.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab import params as parameters
from keyelab import shell
from keyelab.errors import KeyelabError, UsageError
from keyelab.files import (
    project_root,
    read_json,
    sha256_file,
    sha256_json,
    sha256_tree,
    shown,
)
from keyelab.record import hold, interrupted, scratch, seal
from keyelab.record import run as records
from keyelab.record.execute import execute_phase
from keyelab.record.run import PhaseRecord, Run
from keyelab.record.signals import held_back
from keyelab.serving import run as servers

NEEDS: dict[str, tuple[str, ...]] = {
    "env_check": (),
    "model_fetch": (),
    "header_fixes": ("env_check",),
    "source_patch": ("env_check", "header_fixes"),
    "build": ("env_check", "model_fetch", "header_fixes", "source_patch"),
    "serve": ("env_check", "model_fetch", "source_patch", "build"),
    "video_test": ("model_fetch", "serve"),
    "perf_analysis": ("serve", "video_test"),
}
PHASES = tuple(NEEDS)
EXIT_CODES = {"passed": 0, "warned": 0, "failed": 1, "interrupted": 130}
DEAD_KERNEL = 138

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Which phases run for a target, with checked parameters."""

    target: str
    chosen: tuple[str, ...]
    before: tuple[str, ...]
    parameters: dict[str, parameters.Resolved[Any]]
    dry_run: bool


def plan(
    target: str,
    first: str | None,
    last: str | None,
    overrides: Mapping[str, Mapping[str, Any]],
    dry_run: bool = False,
) -> Plan:
    """Check target, phases and every parameter before anything is done; raises UsageError."""
    for phase in (first, last, *overrides):
        if phase is not None:
            parameters.phase_model(phase)
    start = PHASES.index(first) if first else 0
    end = PHASES.index(last) if last else len(PHASES) - 1
    if start > end:
        raise UsageError(
            f"expected --from before --to, found --from {first} --to {last}",
            f"the order is: {' '.join(PHASES)}",
        )
    extra: dict[str, Any] = {"dry_run": True} if dry_run else {}
    resolved = {
        phase: parameters.resolve(phase, target, {**overrides.get(phase, {}), **extra})
        for phase in PHASES[: end + 1]
    }
    return Plan(target, PHASES[start : end + 1], PHASES[:start], resolved, dry_run)


def run(todo: Plan, command: list[str], say: Say, source: Path | None = None) -> tuple[Path, int]:
    """Run a plan; returns the run folder and the exit code.

    `source` is the run to go on from, the target's newest when earlier phases are needed.
    Raises KeyelabError before a run folder exists when they cannot be taken over.
    """
    if todo.before:
        source = _resumable(todo, source)
    left = servers.living(todo.parameters.get("serve"))
    shell.inherit_orphans()
    started = time.monotonic()
    with hold.fresh(todo.target) as folder:
        record = Run(
            run_id=folder.name,
            target=todo.target,
            started=records.now(),
            command=command,
            dry_run=todo.dry_run,
            pid=os.getpid(),
            boot=records.boot(),
            resumes=source.name if source else "",
            tool=records.tool(),
            phases=[_blank(phase, todo) for phase in PHASES],
        )
        code = 1
        try:
            records.save(record, folder)
            say(f"run {shown(folder)}")
            for server in left:
                way = f"keyelab stop --port {server.port}"
                say(f"a server of {server.run_dir} runs on port {server.port}; to end it: {way}")
            record.python_packages_sha256 = seal.freeze(folder)
            if todo.before and source:
                _take_over(todo, source, folder, record, say)
            with scratch.used(folder):
                code = _run_phases(todo, folder, record, say)
        except KeyboardInterrupt:
            code = 130
        except OSError as error:
            raise _unwritten(folder, error) from None
        finally:
            if (folder / "run.json").exists():
                record.duration_s = round(time.monotonic() - started, 1)
                with held_back():  # a second Ctrl-C does not leave it unsealed
                    _end(todo, folder, record, code == 130, say)
    return folder, code


def _end(todo: Plan, folder: Path, record: Run, stopped: bool, say: Say) -> None:
    servers.stop(todo.parameters.get("serve"), folder, say)
    interrupted.settle(record, folder)
    record.status = "interrupted" if stopped else records.overall(record.phases)
    record.finished = records.now()
    _seal(todo, folder, record)


def _run_phases(todo: Plan, folder: Path, record: Run, say: Say) -> int:
    code = 0
    for phase in todo.chosen:
        entry = record.phases[PHASES.index(phase)]
        entry.started = records.now()
        entry.inputs_sha256 = inputs_digest(phase, todo.parameters[phase], folder)
        records.save(record, folder)  # a killed run tells which phase it was in
        say(f"{Path(entry.notebook).stem} ...")
        given = todo.parameters[phase].given()
        done = execute_phase(phase, folder, {**given, "run_dir": shown(folder)})
        done.note(entry)
        records.save(record, folder)
        say(f"{Path(entry.notebook).stem} {entry.status} after {entry.duration_s:.1f} s")
        if entry.status in ("failed", "interrupted"):
            if entry.failure:
                say(f"  {entry.failure.message}")
            dead = entry.failure is not None and entry.failure.kind == "dead-kernel"
            code = DEAD_KERNEL if dead else EXIT_CODES[entry.status]
            if todo.dry_run and entry.status == "failed":
                continue  # the later plans are worth seeing too
            for later in record.phases[PHASES.index(phase) + 1 :]:
                later.reason = f"{phase} {entry.status}"
            break
    return code


def _blank(phase: str, todo: Plan) -> PhaseRecord:
    resolved = todo.parameters.get(phase)
    return PhaseRecord(
        phase=phase,
        notebook=source_notebook(phase).name,
        notebook_sha256=sha256_file(source_notebook(phase)) if resolved else "",
        reason="" if phase in todo.chosen else "not asked for",
        parameters=resolved.as_record() if resolved else {},
    )


def source_notebook(phase: str) -> Path:
    """The committed notebook of a phase."""
    return project_root() / "notebooks" / f"{records.stem(phase)}.ipynb"


def inputs_digest(phase: str, resolved: parameters.Resolved[Any], folder: Path) -> str:
    """Digest of what a phase's result depends on."""
    values = resolved.values.model_dump(exclude={"run_dir", "verbose"})
    needed = {}
    for name in NEEDS[phase]:
        path = folder / "facts" / f"{name}.json"
        needed[name] = read_json(path)["facts"] if path.exists() else None
    package = sha256_tree(Path(__file__).parent, skip=["__pycache__"])
    return sha256_json([sha256_file(source_notebook(phase)), package, values, needed])


def _resumable(todo: Plan, source: Path | None) -> Path:
    source = source or records.latest(todo.target)
    if source is None:
        raise KeyelabError(
            f"expected an earlier run of {todo.target} to resume from, found none",
            f"keyelab run --target {todo.target}",
        )
    earlier = records.load(source)
    for phase in todo.before:
        entry = earlier.phases[PHASES.index(phase)]
        if entry.status not in ("passed", "warned"):
            raise KeyelabError(
                f"expected {phase} passed in {shown(source)}, found {entry.status}",
                f"keyelab run --target {todo.target} --from {phase}",
            )
        if inputs_digest(phase, todo.parameters[phase], source) != entry.inputs_sha256:
            raise KeyelabError(
                f"{phase} of {shown(source)} no longer holds: its notebook, its parameters, the "
                "package or the facts before it have changed",
                f"keyelab run --target {todo.target} --from {phase}",
            )
    seal.require_intact(source)
    if "serve" in todo.before and "video_test" in todo.chosen and not todo.dry_run:
        servers.require(source, todo.target)
    return source


def _take_over(todo: Plan, source: Path, folder: Path, record: Run, say: Say) -> None:
    earlier = records.load(source)
    for phase in todo.before:
        index = PHASES.index(phase)
        old = earlier.phases[index]
        taken = old.model_copy(update={"reused_from": old.reused_from or source.name})
        for path in seal.files_of_phase(source, old):
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        record.phases[index] = taken
        say(f"{Path(taken.notebook).stem} {taken.status} (reused from {taken.reused_from})")
    records.save(record, folder)


def _seal(todo: Plan, folder: Path, record: Run) -> None:
    try:
        growing = servers.logs(todo.parameters.get("serve"), folder)
        if not growing:
            scratch.remove(folder)
        seal.seal(record, folder, growing)
    except OSError as error:
        raise _unwritten(folder, error) from None


def _unwritten(folder: Path, error: OSError) -> KeyelabError:
    left = f"{shown(folder)} was never sealed and holds only what was written before"
    left = left if (folder / "run.json").exists() else ""
    return records.unwritten(folder, error, left)


def summary(folder: Path) -> list[str]:
    """A run in a few lines: its phases, what went wrong, where the page is."""
    run = records.load(folder)
    lines = [f"{run.target} {run.run_id}: {run.status}" + (" (dry run)" if run.dry_run else "")]
    for phase in run.phases:
        took = f" {phase.duration_s:7.1f} s" if phase.duration_s is not None else ""
        why = f" ({phase.reason})" if phase.reason else ""
        reused = f" (reused from {phase.reused_from})" if phase.reused_from else ""
        lines.append(f"  {Path(phase.notebook).stem:16} {phase.status:11}{took}{reused}{why}")
        if phase.failure:
            lines += [f"    {line}" for line in phase.failure.message.splitlines()]
            lines.append(f"    log: {shown(folder / phase.failure.log)}")
    if resume := records.resume_command(run):
        before, _, first = resume.rpartition("--from ")
        if before and records.asks_server(run.phases[PHASES.index(first)]):
            try:
                servers.require(folder, run.target)
            except KeyelabError:  # the run has stopped its server
                resume = f"{before}--from serve"
        lines.append(f"resume: {resume}")
    return [*lines, f"record: {shown(folder / 'index.html')}"]
