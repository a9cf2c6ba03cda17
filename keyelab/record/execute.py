"""Runs one notebook through papermill and says truly how it ended, also from what it left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyelab.checks import Check
from keyelab.files import project_root, read_json
from keyelab.record.run import Failure, PhaseRecord, PhaseStatus, stem


@dataclass(frozen=True)
class Executed:
    """How a phase ended."""

    status: PhaseStatus
    duration_s: float | None
    reason: str = ""
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] | None = None
    failure: Failure | None = None

    def note(self, entry: PhaseRecord) -> None:
        """Write it into the record."""
        for name in vars(self):
            setattr(entry, name, getattr(self, name))


def execute_phase(phase: str, folder: Path, values: Mapping[str, Any]) -> Executed:
    """Run the notebook of `phase` into a run folder; its prints go to standard output."""
    import papermill

    name = stem(phase)
    output = folder / f"{name}.ipynb"
    kernel_log = folder / "logs" / f"{name}-kernel.log"
    kernel_log.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    started = time.monotonic()
    raised: BaseException | None = None
    try:
        with kernel_log.open("a", encoding="utf-8") as stderr:
            papermill.execute_notebook(
                project_root() / "notebooks" / output.name,
                output,
                parameters=dict(values),
                engine_name="keyelab",
                kernel_name="python3",
                progress_bar=False,
                stdout_file=sys.stdout,
                cwd=project_root(),
                kernel_stderr=stderr,
            )
    except (Exception, SystemExit) as error:
        raised = error
    return _told(phase, folder, output, time.monotonic() - started, raised)


def left_by(phase: str, folder: Path) -> Executed:
    """How a phase ended by what it left in the run folder: passed, failed or else interrupted."""
    output = folder / f"{stem(phase)}.ipynb"
    raised = None if _is_complete(output) else KeyboardInterrupt()
    return _told(phase, folder, output, None, raised)


def _is_complete(output: Path) -> bool:
    if not output.exists():
        return False
    code = [cell for cell in read_json(output)["cells"] if cell["cell_type"] == "code"]
    return all(
        "shell.execute_reply" in cell["metadata"].get("execution", {})
        and cell["metadata"].get("papermill", {}).get("status") == "completed"
        for cell in code
        if "".join(cell["source"]).strip()
    )


def _told(
    phase: str, folder: Path, output: Path, seconds: float | None, raised: BaseException | None
) -> Executed:
    left = folder / "facts" / f"{phase}.json"
    content = read_json(left) if left.exists() else {}
    checks = [Check.model_validate(item) for item in content.get("checks", [])]
    facts = content.get("facts")
    status = content.get("status")
    if raised is None and status in ("passed", "warned", "skipped"):
        seconds = content["duration_s"] if seconds is None else seconds
        return Executed(status, seconds, content["reason"], checks, facts)
    failure = failure_in(output, raised, f"logs/{output.stem}-kernel.log")
    ended: PhaseStatus = "interrupted" if failure.kind == "interrupted" else "failed"
    if status == "failed" and ended == "failed":
        failure = failure.model_copy(update={"kind": "check"})
    elif left.exists():
        left.unlink()
    return Executed(ended, seconds, failure.kind, checks, facts, failure)


def failure_in(output: Path, raised: BaseException | None, log: str) -> Failure:
    """Read from an executed notebook which cell ended it, how, and with what sentence."""
    kind, cell_id, message = "error", "", str(raised or "the notebook ended before its last cell")
    if isinstance(raised, KeyboardInterrupt):
        kind = "interrupted"
    if output.exists():
        notebook = read_json(output)
        told = notebook["metadata"].get("keyelab", {})
        kind = told.get("reason") or kind
        cell_id = told.get("failed_cell", "")
        for cell in notebook["cells"]:
            for item in cell.get("outputs", []):
                if item.get("output_type") == "error":
                    message = f"{item['ename']}: {item['evalue']}"
    said = {
        "dead-kernel": "the kernel died: it was killed, or ran out of memory",
        "timeout": "a cell ran out of time",
        "interrupted": "the run was interrupted",
    }
    return Failure(cell=cell_id, kind=kind, message=said.get(kind, message), log=log)
