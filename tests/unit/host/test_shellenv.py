"""env.sh: loaded as a shell would, kept as a difference that survives a record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyelab import shell
from keyelab.facts import EnvFacts
from keyelab.files import redacted
from keyelab.host import shellenv

BODY = """
export ROCM_PATH={root}
export PATH={root}/bin:$PATH
export LD_LIBRARY_PATH={root}/lib:$LD_LIBRARY_PATH
export GREETING='two
lines'
false
"""


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    root = tmp_path / "dtk"
    (root / "bin").mkdir(parents=True)
    (root / "env.sh").write_text(BODY.format(root=root))
    return root


def env(**more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", **more}


def load(toolkit: Path, **more: str) -> shellenv.Loaded:
    return shellenv.capture(toolkit, env(**more), toolkit / "log")


def test_the_difference_is_what_env_sh_changes(toolkit: Path) -> None:
    loaded = load(toolkit, HOME="/home/user", TOKEN="not env.sh's")
    assert loaded.difference == {
        "GREETING": "two\nlines",
        "LD_LIBRARY_PATH": f"{toolkit}/lib:${{LD_LIBRARY_PATH}}",
        "PATH": f"{toolkit}/bin:${{PATH}}",
        "ROCM_PATH": str(toolkit),
    }
    assert (loaded.stops_under_u, loaded.problem) == (True, "")


def test_a_shell_that_has_set_u_for_all_does_not_stop_it(toolkit: Path) -> None:
    assert load(toolkit, SHELLOPTS="nounset:errexit").difference == load(toolkit).difference


def test_a_shell_that_has_loaded_it_before_gives_the_same_difference(toolkit: Path) -> None:
    again = load(toolkit, PATH=f"{toolkit}/bin:/usr/bin:/bin", ROCM_PATH=str(toolkit))
    assert again.difference == load(toolkit).difference


def test_a_library_path_that_is_set_stays_behind_the_toolkits(toolkit: Path) -> None:
    value = load(toolkit, LD_LIBRARY_PATH="/a:/b").difference["LD_LIBRARY_PATH"]
    assert value == f"{toolkit}/lib:${{LD_LIBRARY_PATH}}"


@pytest.mark.parametrize(
    ("body", "problem"),
    [("exit 4\n", "it ends the shell"), ("echo no such card; exit 1\n", "no such card")],
)
def test_an_env_sh_that_ends_the_shell_is_a_problem(toolkit: Path, body: str, problem: str) -> None:
    (toolkit / "env.sh").write_text(body)
    assert load(toolkit).problem == f"env.sh stopped: {problem}"


def test_a_toolkit_without_env_sh_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path) == shellenv.Loaded({}, None, "no env.sh in the toolkit")
    assert shellenv.load("", env(), tmp_path / "log") == shellenv.Loaded({})


def test_the_difference_is_applied_to_another_environment(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/opt/tools:/usr/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    made = shell.environment("", load(toolkit).difference)
    assert made["PATH"] == f"{toolkit}/bin:/opt/tools:/usr/bin"
    assert made["LD_LIBRARY_PATH"] == f"{toolkit}/lib", "no empty part: that is the current folder"
    assert made["GREETING"] == "two\nlines"


def test_paths_below_the_home_folder_survive_the_facts(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records show the home folder as ~, and nothing else undoes that."""
    monkeypatch.setenv("HOME", str(toolkit.parent))
    difference = load(toolkit).difference
    facts = {"os": "", "kernel": "", "cpu": None, "cores": 1, "memory_bytes": 1, "python": "",
             "cmake": "", "ninja": "", "cxx": None, "environment": difference}  # fmt: skip
    stored = redacted(EnvFacts.model_validate(facts).model_dump())
    assert stored["environment"]["ROCM_PATH"] == "~/dtk"
    made = shell.environment("", EnvFacts.model_validate(stored).environment)
    assert made["ROCM_PATH"] == str(toolkit)
    assert made["PATH"] == f"{toolkit}/bin:{os.environ['PATH']}"


def test_another_root_is_named(toolkit: Path, tmp_path: Path) -> None:
    inside = env(ROCM_PATH=str(toolkit), HIP_PATH=f"{toolkit}/hip")
    assert shellenv.other_roots(toolkit, inside) == []
    link = tmp_path / "link"
    link.symlink_to(toolkit)
    assert shellenv.other_roots(link, inside) == []
    mixed = {**inside, "HIP_PATH": "/opt/rocm/hip"}
    assert shellenv.other_roots(toolkit, mixed) == ["HIP_PATH=/opt/rocm/hip"]
    (toolkit / "hipcc").write_text("#!/bin/sh\n")
    (tmp_path / "hipcc").write_text("#!/bin/sh\n")
    (tmp_path / "hipcc").chmod(0o755)
    stray = {**inside, "PATH": str(tmp_path)}
    assert shellenv.other_roots(toolkit, stray) == [f"hipcc={tmp_path}/hipcc"]
