"""What a notebook calls: begin, then say, check and show, and finish.

step = nb.begin("build", globals())     # parameters checked, identity card shown
tree = step.facts("source_patch", SourceFacts)
step.check("binary runs", ok, expected="exit status 0", found="…", remedy="…")
step.finish(BuildFacts(...))            # verdict card, facts/<phase>.json
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from keyelab import checks as checks_module
from keyelab import params as parameters
from keyelab import shell
from keyelab.checks import Check
from keyelab.errors import KeyelabError, NeedsPhase, UsageError
from keyelab.facts import Facts, read_facts
from keyelab.files import located, redact, redacted, shown, write_json, write_text
from keyelab.record import cards, display, failure
from keyelab.record.progress import Progress
from keyelab.record.run import stem

_LOG_LINES = 200
INJECTED = "KEYELAB_INJECTED"
F = TypeVar("F", bound=Facts)


class Step:
    """One phase as its notebook runs it."""

    def __init__(self, phase: str, resolved: parameters.Resolved[Any]) -> None:
        self.phase = phase
        self.stem = stem(phase)
        self.take(resolved)
        self.checks: list[Check] = []
        self.started = time.monotonic()

    def take(self, resolved: parameters.Resolved[Any]) -> None:
        """Work with these parameters from here on."""
        self.params = resolved.values
        self.sources = resolved.sources
        scratch = f"records/{self.params.target}/scratch"
        self.run_dir = located(self.params.run_dir or scratch)
        self.workdir = located(self.params.workdir)
        (self.run_dir / "facts" / f"{self.phase}.json").unlink(missing_ok=True)
        self.log().parent.mkdir(parents=True, exist_ok=True)
        self.logs = failure.Logs(self.log().parent, self.stem)

    @property
    def dry_run(self) -> bool:
        """True when nothing may be done."""
        return bool(self.params.dry_run)

    def log(self, name: str = "") -> Path:
        """The log file of this phase, or of one of its programs."""
        return self.run_dir / "logs" / f"{self.stem}{'-' + name if name else ''}.log"

    def plot(self, name: str) -> Path:
        """Where a picture of this phase is to be written."""
        folder = self.run_dir / "plots"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.stem}-{name}.png"

    def facts(self, phase: str, kind: type[F]) -> F:
        """The facts of an earlier phase: of this run, or of the target's latest for a scratch run.

        Raises NeedsPhase when there are none.
        """
        try:
            return read_facts(self.run_dir, phase, kind)
        except NeedsPhase:
            latest = self.run_dir.parent / "LATEST"
            if self.run_dir.name != "scratch" or not latest.exists():
                raise
        return read_facts(self.run_dir.parent / latest.read_text().strip(), phase, kind)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for programs: this one, tools_dir first on PATH, `extra` on top."""
        return shell.environment(self.params.tools_dir, extra)

    def say(self, markdown: str) -> None:
        """Show markdown (the plain text twin is the same text)."""
        display.markdown(redact(markdown))

    def table(
        self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None
    ) -> None:
        """Show rows as a table."""
        display.markdown(redact(cards.table(list(rows), columns)))

    def code(self, text: str, language: str = "sh", summary: str = "") -> None:
        """Show text in a fence, folded under `summary` when that is given."""
        display.code(redact(text), language, summary)

    def diff(self, text: str, name: str) -> Path:
        """Show a unified diff and keep it in the run folder's patches/; returns its path."""
        self.code(text, "diff", summary=f"{name}: {cards.diff_size(text)}")
        return self.keep(text, name)

    def keep(self, text: str, name: str) -> Path:
        """Keep a patch in the run folder's patches/ without showing it; returns its path."""
        return write_text(self.run_dir / "patches" / name, text)

    def picture(self, path: Path, caption: str) -> None:
        """Show a PNG file."""
        display.picture(path, caption)

    def progress(self, title: str) -> Progress:
        """A progress bar in JupyterLab, one line an event elsewhere."""
        return Progress(f"{self.stem} {title}")

    def check(
        self,
        name: str,
        ok: bool | None,
        *,
        expected: str = "",
        found: str = "",
        remedy: str = "",
        warn: bool = False,
    ) -> Check:
        """Note a verdict for the verdict card; None is unknown."""
        item = checks_module.check(
            name, ok, expected=expected, found=found, remedy=remedy, warn=warn
        )
        self.add_checks([item])
        return item

    def add_checks(self, items: Iterable[Check]) -> None:
        """Note verdicts that a phase folder has made."""
        self.checks.extend(items)

    def finish(self, facts: Facts | None = None) -> None:
        """Show the verdict card and leave the facts; raises KeyelabError when a check failed.

        A dry run leaves status 'skipped' and may have no facts.
        """
        status = "skipped" if self.dry_run else checks_module.worst(self.checks)
        if facts is None and not self.dry_run:
            raise TypeError(f"{self.phase} finished without facts")
        content = {
            "schema": 1,
            "phase": self.phase,
            "status": status,
            "reason": "dry run" if self.dry_run else "",
            "finished": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "duration_s": round(time.monotonic() - self.started, 3),
            "checks": [item.model_dump() for item in self.checks],
            "facts": facts.model_dump() if facts else None,
        }
        write_json(self.run_dir / "facts" / f"{self.phase}.json", redacted(content))
        if self.params.verbose:
            self._show_logs()
        phases = list(parameters.PARAMETERS)
        following = next(iter(phases[phases.index(self.phase) + 1 :]), "")
        display.markdown(
            cards.verdict(self.stem, status, self.checks, following, self.params.target)
        )
        failed = [item for item in self.checks if item.status == "failed"]
        if failed and not self.dry_run:
            raise KeyelabError(
                f"{self.phase}: {len(failed)} of {len(self.checks)} checks failed: "
                + "; ".join(f"{i.name}: expected {i.expected}, found {i.found}" for i in failed),
                failed[0].remedy.replace("`", ""),
            )

    def _show_logs(self) -> None:
        for path in sorted(self.log().parent.glob(f"{self.stem}*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            summary = f"{shown(path)}: {len(lines)} lines, the last {_LOG_LINES} of them at most"
            self.code("\n".join(lines[-_LOG_LINES:]), "text", summary)


def begin(phase: str, namespace: dict[str, Any]) -> Step:
    """Check the parameters cell, show the identity card and return the step.

    Values that were not given explicitly come from params/<target>/. Raises UsageError.
    """
    failure.shorten()
    resolved = _resolved(phase, namespace)
    step = Step(phase, resolved)
    failure.shorten(lambda: step.logs.diagnosis())
    display.markdown(redact(cards.identity(step.stem, resolved, shown(step.run_dir))))
    if _in_jupyterlab():
        from keyelab.record.panel import show_panel

        show_panel(step)
    return step


def _resolved(phase: str, namespace: dict[str, Any]) -> parameters.Resolved[Any]:
    model = parameters.phase_model(phase)
    injected = json.loads(os.environ[INJECTED]) if INJECTED in os.environ else None
    for name in injected or ():
        if name not in model.model_fields:
            parameters.parse_override(f"{phase}.{name}=")  # raises with a suggestion
    target = namespace.get("target", model.model_fields["target"].default)
    if not isinstance(target, str):
        raise UsageError(f"target: expected text, found {target!r}", "quote it")
    given = parameters.target_values(target, phase)
    explicit: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        value = namespace.get(name, field.default)
        chosen = name in injected if injected is not None else value != field.default
        if chosen and not (name in given and given[name][0] == value):
            explicit[name] = value
    where = "override" if injected is not None else "parameters cell"
    resolved = parameters.resolve(phase, target, explicit, where)
    if resolved.values.run_dir:
        resolved.sources["run_dir"] = "this run"
    return resolved


def _in_jupyterlab() -> bool:
    return "JPY_SESSION_NAME" in os.environ and INJECTED not in os.environ
