"""Records made of nothing but what two are compared by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keyelab.params import PARAMETERS
from keyelab.record import seal
from keyelab.record.comparison.side import Side, read
from keyelab.record.run import stem

FACTS: dict[str, dict[str, Any]] = {
    "env_check": {
        "os": "Linux 1", "kernel": "6.1", "cpu": "CPU X", "cores": 8, "memory_bytes": 2**34,
        "python": "3.11.2", "toolkit_root": None, "toolkit_version": None, "devices": [],
        "chosen": [], "environment": {}, "probe": None,
    },
    "model_fetch": {
        "model": {"sha256": "a" * 64}, "mmproj": {"sha256": "b" * 64}, "architecture": "m",
        "projector": "p", "quantization": "F16", "parameters": 10, "context_tokens": 8192,
    },
    "header_fixes": {"files": [], "originals": {}},
    "source_patch": {
        "origin": "pypi", "version": "10019.0.0", "recipe": "article", "base_sha256": "c" * 64,
        "tree_sha256": "d" * 64, "patches": [{"id": "norm"}, {"id": "softmax"}],
    },
    "build": {
        "key": "e" * 64, "command": "cmake -DGGML_HIP=OFF -DCMAKE_MAKE_PROGRAM=/n", "backends": [],
        "version": "b10019-dddddddddddd", "binaries": {"llama-server": {"sha256": "f" * 64}},
    },
    "serve": {"context_tokens": 4096, "slots": 1, "ready_s": 1.0, "devices": [], "port": 4711},
    "video_test": {
        "video": {"sha256": "9" * 64}, "frames": [{"time_s": 1.0}], "answer": "a red circle",
        "prompt": "What?", "usage": {"prompt_tokens": 100, "completion_tokens": 6}, "ttft_s": 0.1,
    },
    "perf_analysis": {"decode_tps": 100.0, "prefill_tps": 1000.0, "load_s": 2.0},
}  # fmt: skip


def make(
    folder: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    failed: str = "",
    message: str = "it broke",
    checks: Mapping[str, str] | None = None,
    diffs: Mapping[str, str] | None = None,
    **run: Any,
) -> Path:
    """Write a sealed record; `parameters` are phase.name: value, `checks` phase.name: status.

    `facts` replace single ones; a `failed` phase and those after it have left none.
    """
    phases, ended = [], ""
    for phase, model in PARAMETERS.items():
        values = {name: {"value": f.default, "source": "default"}
                  for name, f in model.model_fields.items()}  # fmt: skip
        for key, value in (parameters or {}).items():
            if key.partition(".")[0] == phase:
                values[key.partition(".")[2]] = {"value": value, "source": "override"}
        bad = phase == failed
        status = "failed" if bad else "not run" if ended else "passed"
        phases.append(
            {
                "phase": phase, "notebook": f"{stem(phase)}.ipynb", "status": status,
                "reason": f"{ended} failed" if ended else "", "parameters": values,
                "facts": None if bad or ended else {**FACTS[phase], **(facts or {}).get(phase, {})},
                "checks": [{"name": key.partition(".")[2], "status": value}
                           for key, value in (checks or {}).items()
                           if key.startswith(phase + ".")],
                "failure": {"cell": "c", "kind": "error", "message": message, "log": "logs/x.log"}
                if bad else None,
                "duration_s": 2.0,
            }
        )  # fmt: skip
        ended = ended or (phase if bad else "")
    content = {
        "schema_version": 1, "run_id": folder.name, "target": folder.parent.name, "pid": 1,
        "status": "failed" if failed else "passed", "started": "2026-01-01T00:00:00Z",
        "duration_s": 20.0, "command": ["keyelab"], "phases": phases,
        "tool": {"version": "0.1.0", "commit": "1" * 40}, **run,
    }  # fmt: skip
    (folder / "patches").mkdir(parents=True)
    (folder / "env").mkdir()
    (folder / "run.json").write_text(json.dumps(content))
    (folder / "env" / "pip-freeze.txt").write_text("numpy==2.0\npip==24\n")
    for name, text in (diffs or {"01-norm": "+ a\n", "02-softmax": "+ b\n"}).items():
        (folder / "patches" / f"{name}.diff").write_text(text)
    files = sorted(seal.listed(folder).items())
    lines = [f"{seal.sha256_file(path)}  {name}" for name, path in files]
    (folder / seal.SUMS).write_text("\n".join(lines) + "\n")
    return folder


def pair(folder: Path, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Side, Side]:
    """Two records below `folder`, read."""
    one = make(folder / "records/cpu-demo/20260101T000000Z-aaaaaaaa", **a)
    other = make(folder / "records/cpu-demo/20260102T000000Z-bbbbbbbb", **b)
    return read(str(one)), read(str(other))
