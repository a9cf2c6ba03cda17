"""What an executed notebook was made of: the committed source and the parameters of run.json.

A source is known by the digest in run.json. It is looked for at the recorded commit, then in
notebooks/; where it is nowhere to be had, nothing is said of the cells.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from keyelab.checks import Check, check
from keyelab.files import project_root, redacted
from keyelab.record.cells import text
from keyelab.record.run import PhaseRecord, Run

_INJECTED, _BANNER = "injected-parameters", "papermill-error-cell-tag"


def sources_check(run: Run, notebooks: Mapping[str, dict[str, Any]]) -> Check:
    """The cells of each executed notebook ({phase: notebook}) against the source that was run."""
    wrong: list[str] = []
    missing: list[str] = []
    places = set()
    for phase in run.phases:
        if phase.phase not in notebooks:
            continue
        source, place = source_of(run, phase)
        stem = phase.notebook.removesuffix(".ipynb")
        if source is None:
            (wrong if place else missing).append(f"{stem}{place}")
        elif difference := _difference(json.loads(source), notebooks[phase.phase]):
            wrong.append(f"{stem}: {difference}")
        else:
            places.add(place)
    where = " and ".join(sorted(places))
    whole = f"{len(notebooks)} notebooks as {where}" if notebooks else "no notebook was run"
    unseen = f"the source of {', '.join(missing)} is not here"
    commit = f"git fetch origin {run.tool.commit}" if run.tool.commit else "a checkout that has it"
    shared = run.original is not None  # its texts were replaced
    return check(
        "notebook sources",
        (None if shared else False) if wrong else None if missing else True,
        expected="the cells of the notebooks that run.json names by digest",
        found="; ".join(wrong) or (unseen if missing else whole),
        remedy="keyelab verify the original of this shared copy"
        if shared and wrong
        else "do not trust it"
        if wrong
        else f"to compare them: {commit}",
    )


def parameter_contradictions(notebook: dict[str, Any], phase: PhaseRecord, run: Run) -> list[str]:
    """How the parameters in a notebook differ from those of run.json, a sentence each."""
    given = dict(notebook["metadata"]["papermill"]["parameters"])
    found = []
    cells = [cell for cell in notebook["cells"] if _INJECTED in _tags(cell)]
    if [_assigned(text(cell)) for cell in cells] != ([given] if given else []):
        found.append("its cell of injected parameters is not what papermill injected")
    names = {run.run_id, phase.reused_from, run.original.run_id if run.original else ""} - {""}
    folder = str(given.pop("run_dir", ""))
    if phase.reused_from:
        names.discard(run.run_id)
    if folder.rpartition("/")[2] not in names:
        found.append(f"it was made in the run folder {folder}")
    recorded = {name: item["value"] for name, item in phase.parameters.items()}
    chosen = {n for n, item in phase.parameters.items() if item["source"] != "default"}
    names = {n for n in given.keys() | (chosen - {"run_dir"}) if _unlike(given, recorded, n)}
    head = next((cell for cell in notebook["cells"] if "parameters" in _tags(cell)), None)
    defaults = _assigned(text(head)) if head else {}
    rest = recorded.keys() - chosen - {"run_dir", "target"}
    names |= {name for name in rest if _unlike(defaults or {}, recorded, name)}
    if names:
        found.append(f"parameters differ from run.json: {' '.join(sorted(names))}")
    return found


def source_of(run: Run, phase: PhaseRecord) -> tuple[str | None, str]:
    """The source with the recorded digest and where it is; None and what is wrong, '' unknown."""
    commit = run.tool.commit or ""
    committed = _git_show(commit, phase.notebook)
    if committed is not None:
        digest = hashlib.sha256(committed).hexdigest()
        if digest == phase.notebook_sha256:
            return committed.decode(), f"at commit {commit[:12]}"
        if run.tool.dirty is False:
            said = f"{digest[:12]} at commit {commit[:12]}, run.json says"
            return None, f": its digest is {said} {phase.notebook_sha256[:12] or 'none'}"
    path = project_root() / "notebooks" / phase.notebook
    content = path.read_bytes() if path.is_file() else b""
    if content and hashlib.sha256(content).hexdigest() == phase.notebook_sha256:
        return content.decode(), "in notebooks/, by digest"
    return None, ""


def _git_show(commit: str, notebook: str) -> bytes | None:
    """The notebook at a commit of this repository; None when either is not there."""
    root = project_root()
    if not ((root / ".git").exists() and re.fullmatch("[0-9a-f]{40}", commit)):
        return None
    name = f"{commit}:./notebooks/{notebook}"
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "show", name], capture_output=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _difference(source: dict[str, Any], notebook: dict[str, Any]) -> str:
    """The first cell that is not the source's, '' when all are; papermill's own do not count."""
    wanted = redacted([[cell["id"], cell["cell_type"], text(cell)] for cell in source["cells"]])
    found = []
    for cell in notebook["cells"]:
        kind = cell["cell_type"]
        added = _INJECTED in _tags(cell) or (_BANNER in _tags(cell) and kind == "markdown")
        if not added:
            found.append([cell["id"], kind, text(cell)])
    found = redacted(found)
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            return f"cell {other[0]} is not the source's"
    if len(found) > len(wanted):
        return f"cell {found[len(wanted)][0]} was added"
    return f"cell {wanted[len(found)][0]} was removed" if len(found) < len(wanted) else ""


def _assigned(source: str) -> dict[str, Any] | None:
    """{name: value} of a cell that only assigns literals; None for any other."""
    values = {}
    try:
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = ast.literal_eval(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                values[node.target.id] = ast.literal_eval(node.value or ast.Constant(None))
            else:
                return None
    except (SyntaxError, ValueError):
        return None
    return values


def _unlike(found: Mapping[str, Any], recorded: Mapping[str, Any], name: str) -> bool:
    """Both have to have the value; one that was redacted cannot be compared."""
    pair = [found.get(name), recorded.get(name)]
    return pair[0] != pair[1] and "[redacted]" not in json.dumps(pair)


def _tags(cell: dict[str, Any]) -> list[str]:
    return list(cell["metadata"].get("tags", []))
