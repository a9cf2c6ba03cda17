"""Imports go one way, cost little, and modules stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "keyelab"
BASE = {
    "errors",
    "partial",
    "shell",
    "files",
    "apikey",
    "phases",
    "params",
    "checks",
    "facts",
    "diagnose",
}
FOLDERS = {"host", "models", "patching", "build", "serving", "video", "perf", "diagnose"}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imported(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "keyelab" else []
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= set(names)
    return found


def layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "keyelab" else ""


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_module_imports_only_what_is_below_it(module: Path) -> None:
    own = module.parts[0].removesuffix(".py")
    ours = {layer(name) for name in imported(module)} - {"", "__version__"}
    if own in BASE:
        assert ours <= BASE
    elif own in FOLDERS:
        assert ours <= BASE | {own}, "a phase folder reads others only through facts"
    elif own == "record":
        assert ours <= BASE | {"record"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_phase_folders_know_nothing_of_jupyter(module: Path) -> None:
    if module.parts[0] in FOLDERS:
        roots = {name.split(".")[0] for name in imported(module)}
        assert not roots & {"IPython", "papermill", "nbclient", "nbformat", "ipywidgets"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_module_is_small(module: Path) -> None:
    assert len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) <= 300


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = "cv2 matplotlib papermill pandas av IPython gguf requests numpy"
    code = (
        "import sys, keyelab.cli, keyelab.record.nb, keyelab.pipeline;"
        f"print(' '.join(m for m in '{heavy}'.split() if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
