"""The run record: run.json, written `running` first and sealed last.

The schema is versioned and exported by `json_schema()`. Statuses: a run is running, passed,
warned, failed or interrupted; a phase also skipped, reused or not run.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keyelab import __version__
from keyelab.checks import Check
from keyelab.errors import KeyelabError
from keyelab.files import project_root, read_json, redacted, shown, write_json, write_text
from keyelab.params import PARAMETERS

SCHEMA = 1
NEWEST = "newest"  # instead of a run's name
TIME = "%Y-%m-%dT%H:%M:%SZ"
RunStatus = Literal["running", "passed", "warned", "failed", "interrupted"]
PhaseStatus = Literal["passed", "warned", "failed", "interrupted", "skipped", "not run"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Failure(_Part):
    """What ended a phase: where, and the sentence that was shown."""

    cell: str = Field(description="id of the notebook cell")
    kind: str = Field(description="error, timeout, dead-kernel, interrupted or check")
    message: str
    log: str = Field(description="path below the run folder")


class PhaseRecord(_Part):
    """One phase of a run."""

    phase: str
    notebook: str = Field(description="executed notebook, path below the run folder")
    notebook_sha256: str = Field("", description="digest of the source notebook that was run")
    inputs_sha256: str = Field("", description="digest of notebook, parameters and facts needed")
    status: PhaseStatus = "not run"
    reason: str = Field("", description="why it was skipped or not run")
    reused_from: str = Field("", description="run whose result this is")
    started: str | None = None
    duration_s: float | None = None
    parameters: dict[str, dict[str, Any]] = Field({}, description="name: {value, source}")
    checks: list[Check] = []
    facts: dict[str, Any] | None = None
    failure: Failure | None = None


class Growing(_Part):
    """A log as it was when the run was sealed."""

    size_bytes: int
    sha256: str = Field(description="digest of these first bytes")


class Original(_Part):
    """The record that a shared copy was made from."""

    run_id: str
    sums_sha256: str = Field(description="digest of the original's SHA256SUMS")


class Tool(_Part):
    """The keyelab that made the record."""

    version: str = __version__
    commit: str | None = None
    dirty: bool | None = None


class Run(_Part):
    """Everything about a run, as run.json."""

    schema_version: int = SCHEMA
    run_id: str
    target: str
    status: RunStatus = "running"
    started: str
    finished: str | None = None
    duration_s: float | None = None
    command: list[str]
    dry_run: bool = False
    pid: int
    boot: str = Field("", description="digest of the machine's boot id: where and when pid counts")
    resumes: str = Field("", description="run that it goes on from")
    closed: str | None = Field(None, description="when another process sealed it for a dead one")
    tool: Tool
    python_packages_sha256: str = Field("", description="digest of env/pip-freeze.txt")
    growing: dict[str, Growing] = Field(
        {}, description="logs of servers that were left running, path below the run folder: start"
    )
    original: Original | None = Field(None, description="of a copy made by keyelab share")
    phases: list[PhaseRecord]


def now() -> str:
    """UTC, ISO-8601, seconds."""
    return datetime.now(timezone.utc).strftime(TIME)


def stem(phase: str) -> str:
    """The name of a phase's notebook without its ending: 05_build."""
    return f"{list(PARAMETERS).index(phase) + 1:02d}_{phase}"


def boot() -> str:
    """What `Run.boot` holds for this machine since it was started; '' unknown."""
    try:
        said = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(said.strip()).hexdigest()[:12]


def new_run_folder(target: str) -> Path:
    """Make records/<target>/<YYYYMMDDTHHMMSSZ>-<8 hex>/; KeyelabError where that cannot be."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    folder = project_root() / "records" / target / f"{stamp}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise unwritten(folder, error) from None
    return folder


def unwritten(folder: Path, error: OSError, left: str = "") -> KeyelabError:
    """The error for a run folder that cannot be written; `left` says what became of the run."""
    return KeyelabError(
        f"expected to write {shown(error.filename or folder)}, found: {error.strerror or error}"
        + (f"; {left}" if left else ""),
        f"df -h {shown(folder.parent)}; ls -ld {shown(folder.parent)}",
    )


def save(run: Run, folder: Path) -> None:
    """Write run.json whole."""
    write_json(folder / "run.json", redacted(run.model_dump(mode="json")))


def load(folder: Path) -> Run:
    """Read run.json; KeyelabError when it is none of ours."""
    content = read_json(folder / "run.json")
    try:
        return Run.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise KeyelabError(
            f"expected a keyelab run record in {shown(folder)}, found "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None


def latest(target: str) -> Path | None:
    """The newest finished run of a target, by records/<target>/LATEST."""
    pointer = project_root() / "records" / target / "LATEST"
    if not pointer.exists():
        return None
    folder = pointer.parent / pointer.read_text(encoding="utf-8").strip()
    return folder if (folder / "run.json").exists() else None


def chosen(record: Path | None, target: str) -> Path:
    """The record that was named, or the target's newest; KeyelabError when it has none."""
    folder = record or latest(target)
    if folder is None:
        raise KeyelabError(
            f"expected a run of {target} under {shown(project_root() / 'records')}, found none",
            f"keyelab run --target {target}",
        )
    return folder


def point_latest(folder: Path) -> None:
    """Name a run as the target's newest."""
    write_text(folder.parent / "LATEST", folder.name + "\n")


def overall(phases: list[PhaseRecord]) -> RunStatus:
    """The status of a run from those of its phases; one in which nothing was done is warned."""
    found = {phase.status for phase in phases}
    for status in ("interrupted", "failed", "warned"):
        if status in found:
            return status
    return "passed" if "passed" in found else "warned"


def resume_command(run: Run) -> str:
    """What to type to go on from the failed phase with the run's settings; '' if none failed."""
    if run.closed and run.status == "interrupted":  # it need not be the newest
        return f"keyelab run --resume {run.run_id}"
    broken = next((phase.phase for phase in run.phases if phase.failure), None)
    if broken is None or run.dry_run:
        return ""
    words = list(run.command)
    if "--from" in words:
        place = words.index("--from")
        del words[place : place + 2]
    return shlex.join([*words, "--from", broken])


def asks_server(entry: PhaseRecord) -> bool:
    """Whether a phase needs the server that 06_serve left to run."""
    sweep = entry.parameters.get("sweep", {}).get("value")
    return entry.phase == "video_test" or (entry.phase == "perf_analysis" and bool(sweep))


def tool() -> Tool:
    """This keyelab: version, and commit and cleanness where git can tell."""
    commit = os.environ.get("KEYELAB_SOURCE_COMMIT") or _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no")
    return Tool(commit=commit, dirty=None if status is None else bool(status))


def json_schema() -> dict[str, Any]:
    """The JSON schema of run.json, as docs/run.schema.json holds it."""
    return Run.model_json_schema()


def _git(*words: str) -> str | None:
    root = project_root()
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
