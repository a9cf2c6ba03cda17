"""A record as an in-toto Statement v1: SLSA provenance v1, or a test result v0.1. Not signed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyelab.files import sha256_file, write_json
from keyelab.record import seal
from keyelab.record.export import material
from keyelab.record.export.material import Item
from keyelab.record.run import PhaseRecord, Run

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
BUILD_TYPE = "urn:keyelab:run:v1"
LOCAL_BUILDER = "urn:keyelab:host"  # the machine that ran it, which vouches for nothing
OUTCOME = {"passed": "PASSED", "warned": "WARNED", "failed": "FAILED", "interrupted": "FAILED"}
RESULTS = {"ok": "passedTests", "warned": "warnedTests", "unknown": "warnedTests"}


def write_statement(
    folder: Path, output: Path, predicate: str = "provenance", builder_id: str = ""
) -> Path:
    """Write the statement of a record as JSON, whole or not at all.

    `predicate` is provenance or test-result. Raises KeyelabError when the record is not exportable.
    """
    run = material.exportable(folder)
    record = Item(f"{run.run_id}/{seal.SUMS}", sha256_file(folder / seal.SUMS))
    built, model = _made(run, "build"), _made(run, "model_fetch")
    if predicate == "provenance":
        subject, kind, told = [record, *built], PROVENANCE, _provenance(run, folder, builder_id)
    else:
        subject, kind, told = [record, *built, *model], TEST_RESULT, _test_result(run, folder)
    content = {
        "_type": STATEMENT,
        "subject": [_descriptor(item) for item in subject],
        "predicateType": kind,
        "predicate": told,
    }
    with material.writing(output):
        return write_json(output, content)


def _made(run: Run, phase: str) -> list[Item]:
    return [item for entry in run.phases if entry.phase == phase for item in material.made(entry)]


def _provenance(run: Run, folder: Path, builder_id: str) -> dict[str, Any]:
    started = material.executed(run)
    builder = {"id": builder_id or LOCAL_BUILDER, "version": {"keyelab": run.tool.version}}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "target": run.target,
                "command": run.command,
                "parameters": {phase.phase: _parameters(phase, given=True) for phase in started},
            },
            "internalParameters": {
                "defaults": {phase.phase: _parameters(phase, given=False) for phase in started},
                "environment": material.facts(run, "env_check"),
                "phases": {phase.phase: _phase(run, phase) for phase in started},
            },
            "resolvedDependencies": [*_tool(run), *_sources(run), *_read(run)],
        },
        "runDetails": {
            "builder": builder,
            "metadata": {
                name: value
                for name, value in (
                    ("invocationId", run.run_id),
                    ("startedOn", run.started),
                    ("finishedOn", run.finished),
                )
                if value
            },
            "byproducts": _byproducts(run, folder),
        },
    }


def _test_result(run: Run, folder: Path) -> dict[str, Any]:
    """Every check, as phase: name; a phase that ended otherwise than by a check has failed too."""
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for phase in material.executed(run):
        key = Path(phase.notebook).stem
        for item in phase.checks:
            tests[RESULTS.get(item.status, "failedTests")].append(f"{key}: {item.name}")
        if not material.ended_well(phase) and all(item.status != "failed" for item in phase.checks):
            tests["failedTests"].append(f"{key}: {material.why(run, phase)}")
    return {
        "result": OUTCOME[run.status],
        "configuration": [_record_file(run, folder, "run.json"), *_notebooks(run)],
        **tests,
    }


def _parameters(phase: PhaseRecord, given: bool) -> dict[str, Any]:
    return {
        name: entry["value"]
        for name, entry in phase.parameters.items()
        if (entry["source"] != "default") == given
    }


def _phase(run: Run, phase: PhaseRecord) -> dict[str, Any]:
    """How a phase ended, and whether this run made its result."""
    told = {
        "status": phase.status,
        "startedOn": phase.started,
        "finishedOn": material.end_of(phase),
        "reusedFrom": phase.reused_from or None,
        "error": None if material.ended_well(phase) else material.why(run, phase),
    }
    return {name: value for name, value in told.items() if value is not None}


def _tool(run: Run) -> list[dict[str, Any]]:
    """keyelab; its commit is the digest of what ran only when nothing was changed."""
    tool: dict[str, Any] = {"name": f"keyelab {run.tool.version}"}
    if run.tool.commit and run.tool.dirty is False:
        tool["digest"] = {"gitCommit": run.tool.commit}
    elif run.tool.commit:
        tool["annotations"] = {"commit": run.tool.commit, "dirty": run.tool.dirty}
    return [tool, *_notebooks(run)]


def _notebooks(run: Run) -> list[dict[str, Any]]:
    return [
        _descriptor(Item(f"notebooks/{phase.notebook}", phase.notebook_sha256))
        for phase in material.executed(run)
        if phase.notebook_sha256
    ]


def _sources(run: Run) -> list[dict[str, Any]]:
    """llama.cpp: keyelab's digest of the tree before edits, and the commit where git has one."""
    facts = material.facts(run, "source_patch")
    if not facts:
        return []
    origin, digest = str(facts["origin"]), {"keyelabTreeSha256": facts["base_sha256"]}
    if origin.startswith("git "):
        digest["gitCommit"] = facts["version"]
    return [{"name": f"llama.cpp: {origin}", "digest": digest}]


def _read(run: Run) -> list[dict[str, Any]]:
    """What phases read and this run did not build: archive, headers, model, video, packages."""
    built = {item.sha256 for item in _made(run, "build")}
    items = {
        item.sha256: item
        for phase in material.executed(run)
        for item in [*material.used(run, phase), *material.made(phase)]
        if item.sha256 not in built
    }
    packages = Item(f"{run.run_id}/env/pip-freeze.txt", run.python_packages_sha256)
    found = [*items.values(), *([packages] if packages.sha256 else [])]
    return [_descriptor(item) for item in found]


def _byproducts(run: Run, folder: Path) -> list[dict[str, Any]]:
    names = ["run.json", *(phase.notebook for phase in material.executed(run))]
    return [_record_file(run, folder, name) for name in names if (folder / name).is_file()]


def _record_file(run: Run, folder: Path, name: str) -> dict[str, Any]:
    return _descriptor(Item(f"{run.run_id}/{name}", sha256_file(folder / name)))


def _descriptor(item: Item) -> dict[str, Any]:
    described: dict[str, Any] = {"name": item.name, "digest": {"sha256": item.sha256}}
    if item.path:
        described["annotations"] = {"path": item.path}
    return described
