"""The committed notebooks: pairs agree, parameters are what the package declares, house rules."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_origin

import jupytext
import pytest

from keyelab.params import PARAMETERS
from keyelab.pipeline import NEEDS, PHASES

ROOT = Path(__file__).parents[2]
PARTS = [
    "Goal", "Time, risk and rollback", "Parameters", "Preflight", "Do", "Verify",
    "Result and next step",
]  # fmt: skip
DEMO_MODEL = "demo_model"  # trains the packaged model again; no phase
phases = pytest.mark.parametrize("phase", list(PARAMETERS))
books = pytest.mark.parametrize("phase", [*PARAMETERS, DEMO_MODEL])


def path(phase: str, suffix: str = ".ipynb") -> Path:
    if phase == DEMO_MODEL:
        return ROOT / "notebooks" / f"{phase}{suffix}"
    number = list(PARAMETERS).index(phase) + 1
    return ROOT / "notebooks" / f"{number:02d}_{phase}{suffix}"


def cells(phase: str, kind: str = "code") -> list[dict[str, Any]]:
    book = json.loads(path(phase).read_text(encoding="utf-8"))
    return [
        {**cell, "source": "".join(cell["source"])}
        for cell in book["cells"]
        if cell["cell_type"] == kind
    ]


def parameters_cell(phase: str) -> str:
    tagged = [c for c in cells(phase) if "parameters" in c["metadata"].get("tags", [])]
    assert len(tagged) == 1, "exactly one cell is tagged parameters"
    return str(tagged[0]["source"])


def test_the_pipeline_runs_every_phase_after_what_it_needs() -> None:
    assert tuple(PARAMETERS) == PHASES
    for phase, needed in NEEDS.items():
        assert all(PHASES.index(name) < PHASES.index(phase) for name in needed)


def differing_cells(script: Path, book: Path) -> list[int]:
    """Numbers (from 1) of the cells that a pair does not share; time stamps do not count."""
    sides = [
        [(c.cell_type, c.source.strip(), c.metadata.get("tags")) for c in jupytext.read(file).cells]
        for file in (script, book)
    ]
    pairs = enumerate(itertools.zip_longest(*sides), 1)
    return [number for number, (one, other) in pairs if one != other]


@books
def test_pair_has_the_same_cells(phase: str) -> None:
    found = differing_cells(path(phase, ".py"), path(phase))
    assert not found, "these cells differ: edit the .py, then: make sync"


def test_pair_is_compared_by_content_and_differing_cells_are_named(tmp_path: Path) -> None:
    script, book = tmp_path / "wb.py", tmp_path / "wb.ipynb"
    script.write_text("# %% [markdown]\n# A\n\n# %%\nport = 8082\n\n# %%\nprint(port)\n")
    jupytext.write(jupytext.read(script), book)
    for newer in (script, book):
        os.utime(newer, (4e9, 4e9))
        assert differing_cells(script, book) == []
    before = book.read_bytes()
    script.write_text(script.read_text().replace("8082", "8083") + "\n# %%\n'more'\n")
    assert differing_cells(script, book) == [2, 4]
    assert book.read_bytes() == before


@books
def test_notebook_is_committed_without_outputs_and_with_ids(phase: str) -> None:
    book = json.loads(path(phase).read_text(encoding="utf-8"))
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert set(book["metadata"]) == {"kernelspec"}
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in cells(phase):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@phases
def test_parameters_cell_declares_what_the_package_declares(phase: str) -> None:
    model = PARAMETERS[phase]
    declared = {}
    source = parameters_cell(phase)
    lines = source.splitlines()
    for node in ast.parse(source).body:
        assert isinstance(node, ast.AnnAssign), f"not a declaration: {ast.unparse(node)}"
        assert isinstance(node.target, ast.Name)
        assert isinstance(node.annotation, ast.Name), "a bare type, which papermill can read"
        assert node.value is not None
        comment = lines[node.lineno - 1].partition("  # ")[2]
        declared[node.target.id] = (node.annotation.id, ast.literal_eval(node.value), comment)
    wanted = {
        name: (bare(field.annotation), field.default, field.description)
        for name, field in model.model_fields.items()
    }
    assert declared == wanted


def bare(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin in (dict, list):
        return str(origin.__name__)
    return annotation.__name__ if isinstance(annotation, type) else "str"


@phases
def test_papermill_help_lists_every_parameter_with_type_and_help(phase: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "--help-notebook", str(path(phase))],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    text = " ".join(done.stdout.split())
    for name, field in PARAMETERS[phase].model_fields.items():
        assert f"{name}: {bare(field.annotation)} (default" in text
        assert field.description
        assert field.description in text
    assert "Unknown" not in text


@books
def test_notebook_has_the_seven_parts_in_order(phase: str) -> None:
    text = "\n".join(cell["source"] for cell in cells(phase, "markdown"))
    places = [
        re.search(rf"(^## {part}\b|^\*\*{part}\.?\*\*)", text, re.MULTILINE) for part in PARTS
    ]
    assert all(places), [part for part, place in zip(PARTS, places, strict=True) if not place]
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


@books
def test_cells_are_short_and_define_nothing_and_shell_nothing(phase: str) -> None:
    for cell in cells(phase):
        if "parameters" in cell["metadata"].get("tags", []):
            continue
        lines = cell["source"].splitlines()
        assert len(lines) <= 15, lines[0]
        tree = ast.parse(cell["source"])  # magics and ! do not parse
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        assert "os.system" not in cell["source"]


def test_every_notebook_is_one_of_these() -> None:
    known = {path(phase).name for phase in (*PARAMETERS, DEMO_MODEL)}
    assert {file.name for file in (ROOT / "notebooks").glob("*.ipynb")} == known


def test_papermill_reads_the_parameters_of_the_demo_model() -> None:
    from papermill.inspection import inspect_notebook

    found = inspect_notebook(str(path(DEMO_MODEL)))
    kinds = {name: one["inferred_type_name"] for name, one in found.items()}
    assert {"None", "Any"}.isdisjoint(kinds.values())
    assert kinds["out"] == "str"
    assert all(one["help"] for one in found.values())


def test_the_demo_model_needs_torch_and_says_so_before_anything_else(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch"):
        pytest.skip("torch is installed")
    done = subprocess.run(
        [sys.executable, "-m", "papermill", str(path(DEMO_MODEL)), str(tmp_path / "out.ipynb"),
         "-p", "out", str(tmp_path / "run")],
        capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode != 0
    assert "expected torch for training, found none" in done.stderr
    assert "pip install 'keyelab[train]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_every_params_file_names_known_keys_and_comments_each() -> None:
    import yaml

    from keyelab.params import resolve, targets

    for target in targets():
        for phase in PARAMETERS:
            resolve(phase, target, {})
        for file in (ROOT / "params" / target).glob("*.yaml"):
            assert file.stem == "common" or file.stem in PARAMETERS, file
            for line in file.read_text(encoding="utf-8").splitlines():
                if re.match(r"[a-z_0-9]+:", line) and not line.rstrip().endswith((":", "|", ">")):
                    assert " #" in line or _commented_above(file, line), f"{file.name}: {line}"
            assert isinstance(yaml.safe_load(file.read_text(encoding="utf-8")) or {}, dict)


def _commented_above(file: Path, line: str) -> bool:
    lines = file.read_text(encoding="utf-8").splitlines()
    index = lines.index(line)
    return index > 0 and lines[index - 1].lstrip().startswith("#")
