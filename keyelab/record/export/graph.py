"""The entities of a crate: each phase that was started is a CreateAction.

Its instrument is its notebook, its objects are its parameters and what it read, its results are
its files. An unknown value is left out.
"""

from __future__ import annotations

import base64
import json
import mimetypes
from pathlib import Path
from typing import Any
from urllib.parse import quote

from keyelab.files import sha256_file
from keyelab.record import seal
from keyelab.record.export import material
from keyelab.record.export.material import Item
from keyelab.record.run import PhaseRecord, Run

Entity = dict[str, Any]

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
SERVED = ("serve", "video_test", "perf_analysis")  # phases in which llama.cpp itself runs
TYPES = {
    ".diff": "text/x-diff",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".mbox": "application/mbox",
    "": "text/plain",
}


def graph(run: Run, folder: Path, license_url: str = "") -> list[Entity]:
    """The entities of the crate that holds a record as a folder named by its run id."""
    phases = material.executed(run)
    seals = [name for name in (seal.SUMS, seal.SIGNATURE) if (folder / name).is_file()]
    names = sorted([*seal.listed(folder), *seals])
    files = {name: _file(run, folder, name) for name in names}
    outside = {
        item.sha256: _outside(item)
        for phase in phases
        for item in [*material.used(run, phase), *material.made(phase)]
    }
    closed = f"; sealed at {run.closed} for a process that had died" if run.closed else ""
    root = _entity(
        "./", "Dataset",
        name=f"keyelab run {run.run_id} of {run.target}",
        description=f"{run.status}: {' '.join(run.command)}{closed}",
        datePublished=_time(run.finished or run.started),
        license=_ref(license_url or "#no-licence"),
        conformsTo=_ref(PROFILE),
        isBasedOn=_ref(f"#original/{run.original.run_id}") if run.original else None,
        hasPart=[_ref(part["@id"]) for part in [*files.values(), *outside.values()]],
        mentions=[_ref(f"#{_key(phase)}") for phase in phases],
    )  # fmt: skip
    descriptor = _entity(
        "ro-crate-metadata.json", "CreativeWork",
        about=_ref("./"), conformsTo=_ref("https://w3id.org/ro/crate/1.1"),
    )  # fmt: skip
    entities = [descriptor, root, *_about(run, license_url), *files.values(), *outside.values()]
    for phase in phases:
        paths = [path.relative_to(folder).as_posix() for path in seal.files_of_phase(folder, phase)]
        results = [files[name] for name in sorted(paths)]
        entities += [_notebook(run, phase), *_parameters(phase), _action(run, phase, results)]
    return entities


def _about(run: Run, license_url: str) -> list[Entity]:
    """The profile, the licence, the original of a copy, and the programs."""
    found = [_entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")]
    if license_url:
        found.append(_entity(license_url, "CreativeWork", name=license_url))
    else:
        found.append(
            _entity("#no-licence", "CreativeWork", name="none", description="No licence was given.")
        )
    if run.original:
        found.append(
            _entity(
                f"#original/{run.original.run_id}", "CreativeWork",
                name=f"SHA256SUMS of record {run.original.run_id}", sha256=run.original.sums_sha256,
            )
        )  # fmt: skip
    changed = "with changes that are not in the commit" if run.tool.dirty else None
    found.append(
        _entity(
            "#keyelab", "SoftwareApplication",
            name="keyelab", softwareVersion=run.tool.version, identifier=run.tool.commit,
            description=changed,
        )
    )  # fmt: skip
    if build := material.facts(run, "build"):
        source = material.facts(run, "source_patch")
        found.append(
            _entity(
                "#llama.cpp", "SoftwareApplication",
                name="llama.cpp", softwareVersion=build["version"],
                url="https://github.com/ggml-org/llama.cpp",
                description=f"from {source.get('origin')}, recipe {source.get('recipe')}",
            )
        )  # fmt: skip
    return found


def _action(run: Run, phase: PhaseRecord, results: list[Entity]) -> Entity:
    well = material.ended_well(phase)
    worse = [f"{item.name}: {item.status}" for item in phase.checks if item.status != "ok"]
    reused = [f"reused from run {phase.reused_from}"] if phase.reused_from else []
    served = phase.phase in SERVED and material.facts(run, "build")
    return _entity(
        f"#{_key(phase)}", "CreateAction",
        name=_key(phase),
        description="; ".join([f"{phase.status}, {len(phase.checks)} checks", *reused, *worse]),
        instrument=[
            _ref(f"#notebooks/{phase.notebook}"), *([_ref("#llama.cpp")] if served else [])
        ],
        object=[
            *(_ref(entity["@id"]) for entity in _parameters(phase)),
            *(_ref(_name_of(item)) for item in material.used(run, phase)),
        ],
        result=[
            *(_ref(entity["@id"]) for entity in results),
            *(_ref(_name_of(item)) for item in material.made(phase)),
        ],
        startTime=_time(phase.started),
        endTime=_time(material.end_of(phase)),
        actionStatus=f"http://schema.org/{'Completed' if well else 'Failed'}ActionStatus",
        error=None if well else material.why(run, phase),
    )  # fmt: skip


def _notebook(run: Run, phase: PhaseRecord) -> Entity:
    return _entity(
        f"#notebooks/{phase.notebook}", "SoftwareSourceCode",
        name=f"notebooks/{phase.notebook}", sha256=phase.notebook_sha256 or None,
        version=run.tool.version, programmingLanguage="Python", isPartOf=_ref("#keyelab"),
    )  # fmt: skip


def _parameters(phase: PhaseRecord) -> list[Entity]:
    return [
        _entity(
            f"#{_key(phase)}/{name}", "PropertyValue",
            name=name, value=_literal(entry["value"]), description=f"from {entry['source']}",
        )
        for name, entry in phase.parameters.items()
    ]  # fmt: skip


def _file(run: Run, folder: Path, name: str) -> Entity:
    """A file of the record; of a log that still grows, its sealed start."""
    path, start = folder / name, run.growing.get(name)
    return _entity(
        quote(f"{run.run_id}/{name}"), "File",
        name=name,
        encodingFormat=TYPES.get(path.suffix) or mimetypes.guess_type(name)[0],
        contentSize=str(start.size_bytes if start else path.stat().st_size),
        sha256=start.sha256 if start else sha256_file(path),
    )  # fmt: skip


def _outside(item: Item) -> Entity:
    """A file that is no part of the crate."""
    return _entity(
        _name_of(item), "File",
        name=item.name, sha256=item.sha256, description=item.path or None,
        contentSize=None if item.size_bytes is None else str(item.size_bytes),
        encodingFormat=mimetypes.guess_type(item.name)[0] or "application/octet-stream",
    )  # fmt: skip


def _name_of(item: Item) -> str:
    """The URI of a file by its digest (RFC 6920)."""
    code = base64.urlsafe_b64encode(bytes.fromhex(item.sha256)).decode().rstrip("=")
    return f"ni:///sha-256;{code}"


def _entity(identifier: str, kind: str, /, **properties: Any) -> Entity:
    """A lone value stands for itself, as RO-Crate wants it; None and [] are left out."""
    known = {name: value for name, value in properties.items() if value not in (None, [])}
    single = {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in known.items()}
    return {"@id": identifier, "@type": kind, **single}


def _ref(identifier: str) -> Entity:
    return {"@id": identifier}


def _key(phase: PhaseRecord) -> str:
    return Path(phase.notebook).stem


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(stamp: str | None) -> str | None:
    """UTC as the profile wants it: +00:00, not Z."""
    return stamp.replace("Z", "+00:00") if stamp else None
