"""Is a record what the run left, and does it claim only what ran?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyelab.checks import Check, check
from keyelab.files import project_root, read_json, sha256_file
from keyelab.record import seal
from keyelab.record.run import PhaseRecord, Run, load, overall

RAN = ("passed", "warned", "skipped")


def verify(folder: Path) -> list[Check]:
    """Check a run folder: its files, its phases against their notebooks, its overall status.

    Raises KeyelabError when the folder holds no run record.
    """
    run = load(folder)
    edited = seal.edits(folder)
    results = [
        check(
            "files as sealed",
            not edited,
            expected="every file as SHA256SUMS says",
            found="; ".join(edited[:5]) or f"{len(seal.listed(folder))} files unchanged",
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
                remedy="the record contradicts itself; do not trust it",
            )
        )
    results += [verify_phase(folder, run, phase) for phase in run.phases if phase.started]
    return results


def verify_phase(folder: Path, run: Run, phase: PhaseRecord) -> Check:
    """A phase's claim against its notebook: cells, replies, parameters, source, facts."""
    path = folder / phase.notebook
    if path.exists():
        wrong = _contradictions(path, folder, phase)
    else:
        wrong = ["the notebook is missing"] if phase.status in RAN else []
    return check(
        Path(phase.notebook).stem,
        not wrong,
        expected=f"a notebook that says {phase.status}",
        found="; ".join(wrong) or f"{phase.status}, as its cells say",
        remedy="the record contradicts itself; do not trust it",
    )


def _contradictions(path: Path, folder: Path, phase: PhaseRecord) -> list[str]:
    notebook = read_json(path)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    unfinished = [cell for cell in code if not _finished(cell)]
    wrong = []
    if phase.status in RAN and unfinished:
        wrong.append(f"{len(unfinished)} of {len(code)} cells never finished")
    if phase.status in RAN and any(_failed(cell) for cell in code):
        wrong.append("a cell failed")
    ended_early = unfinished or any(_failed(cell) for cell in code)
    if phase.status in ("failed", "interrupted") and not ended_early:
        wrong.append("no cell failed")
    given = {k: v for k, v in _injected(notebook).items() if k != "run_dir"}
    recorded = {
        name: item["value"]
        for name, item in phase.parameters.items()
        if item["source"] != "default" and name != "run_dir"
    }
    if given != recorded:
        names = sorted(n for n in given.keys() | recorded.keys() if given.get(n) != recorded.get(n))
        wrong.append(f"parameters differ from run.json: {' '.join(names)}")
    wrong += _source_difference(notebook, phase)
    facts = folder / "facts" / f"{phase.phase}.json"
    if phase.status in RAN:
        left = read_json(facts) if facts.exists() else {}
        if (left.get("status"), left.get("facts")) != (phase.status, phase.facts):
            wrong.append("its facts differ from run.json")
    return wrong


def _source_difference(notebook: dict[str, Any], phase: PhaseRecord) -> list[str]:
    source = project_root() / "notebooks" / phase.notebook
    if not source.exists() or sha256_file(source) != phase.notebook_sha256:
        return []  # made by another version of keyelab: nothing to compare with
    wanted = [(cell["id"], _text(cell)) for cell in read_json(source)["cells"]]
    found = [
        (cell["id"], _text(cell))
        for cell in notebook["cells"]
        if not {"injected-parameters", "papermill-error-cell-tag"} & set(_tags(cell))
    ]
    return [] if wanted == found else ["its source cells are not those of the notebook"]


def _finished(cell: dict[str, Any]) -> bool:
    if not _text(cell).strip():
        return True
    return "shell.execute_reply" in cell["metadata"].get("execution", {}) and (
        cell["metadata"].get("papermill", {}).get("status") == "completed"
    )


def _failed(cell: dict[str, Any]) -> bool:
    return cell["metadata"].get("papermill", {}).get("status") == "failed" or any(
        output.get("output_type") == "error" for output in cell.get("outputs", [])
    )


def _injected(notebook: dict[str, Any]) -> dict[str, Any]:
    given = notebook["metadata"].get("papermill", {}).get("parameters", {})
    return dict(given)


def _tags(cell: dict[str, Any]) -> list[str]:
    return list(cell["metadata"].get("tags", []))


def _text(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
