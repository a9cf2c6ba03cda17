"""Run folders made by hand, as small as their reader allows."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from keyelab.params import PARAMETERS
from keyelab.record import run as records
from keyelab.record.run import Failure, PhaseRecord, Run, Tool, stem

FACTS: dict[str, dict[str, Any]] = {
    "env_check": {"cpu": "EPYC", "cores": 2, "memory_bytes": 16 << 30, "devices": []},
    "model_fetch": {"model": {"path": "models/tiny.gguf", "sha256": "a" * 64, "size_bytes": 1}},
    "source_patch": {"recipe": "k100ai"},
    "build": {"version": "b10019"},
    "perf_analysis": {
        "decode_tps": 20.0,
        "prefill_tps": 300.0,
        "tasks": [{"decode_tps": 20.0, "context_tokens": 4096}],
        "sweep": [],
    },
}


def make_run(
    parent: Path,
    number: int = 0,
    *,
    failed: str = "",
    message: str = "CommandFailed: expected exit status 0 of cmake, found 1",
    kind: str = "error",
    log: str = "",
    facts: dict[str, dict[str, Any]] | None = None,
    sealed: bool = True,
    **changes: Any,
) -> Path:
    """Write a run of day `number` and return its folder; `failed` is the phase that ended it.

    `log` is what that phase's log says, `facts` replaces facts by phase, `changes` the run's own.
    """
    started = datetime(2026, 11, 1, tzinfo=timezone.utc) + timedelta(days=number)
    run_id = changes.pop("run_id", f"{started:%Y%m%dT%H%M%SZ}-{number:08x}")
    told = {**FACTS, **(facts or {})}
    phases = []
    for name in PARAMETERS:
        before = not failed or list(PARAMETERS).index(name) < list(PARAMETERS).index(failed)
        phase = PhaseRecord(
            phase=name,
            notebook=f"{stem(name)}.ipynb",
            status="passed" if before else "not run",
            facts=told.get(name) if before else None,
        )
        if name == failed:
            where = f"logs/{stem(name)}.log"
            phase.status = "interrupted" if kind == "interrupted" else "failed"
            phase.failure = Failure(cell="c", kind=kind, message=message, log=where)
        phases.append(phase)
    run = Run(
        run_id=run_id,
        target=changes.pop("target", "cpu-demo"),
        started=f"{started:%Y-%m-%dT%H:%M:%SZ}",
        status=changes.pop("status", records.overall(phases)),
        duration_s=60.0,
        command=["keyelab", "run"],
        pid=changes.pop("pid", 1),
        tool=changes.pop("tool", Tool(commit="c0ffee" + "0" * 34, dirty=False)),
        phases=phases,
        **changes,
    )
    folder = parent / run_id
    (folder / "logs").mkdir(parents=True)
    (folder / "index.html").write_text("a page", encoding="utf-8")
    if log:
        (folder / "logs" / f"{stem(failed)}.log").write_text(log, encoding="utf-8")
    (folder / "run.json").write_text(json.dumps(run.model_dump(mode="json")), encoding="utf-8")
    if sealed:
        digest = hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()
        (folder / "SHA256SUMS").write_text(f"{digest}  run.json\n", encoding="utf-8")
    return folder
