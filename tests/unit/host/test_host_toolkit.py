"""env.sh: loaded as a shell would, kept as a difference that survives a record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyelab import shell
from keyelab.facts import EnvFacts
from keyelab.files import redacted
from keyelab.host import toolkit

BODY = """
export ROCM_PATH={root}
export PATH={root}/bin:$PATH
export LD_LIBRARY_PATH={root}/lib:$LD_LIBRARY_PATH
export GREETING='two
lines'
false
"""


@pytest.fixture
def dtk(tmp_path: Path) -> Path:
    root = tmp_path / "dtk"
    (root / "bin").mkdir(parents=True)
    (root / "env.sh").write_text(BODY.format(root=root))
    return root


def env(**more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", **more}


def load(root: Path, **more: str) -> toolkit.Toolkit:
    return toolkit.load(str(root), "hip", env(**more), root / "log")


def test_the_difference_is_what_env_sh_changes(dtk: Path) -> None:
    loaded = load(dtk, HOME="/home/user", TOKEN="not env.sh's")
    assert loaded.difference == {
        "GREETING": "two\nlines",
        "LD_LIBRARY_PATH": f"{dtk}/lib:${{LD_LIBRARY_PATH}}",
        "PATH": f"{dtk}/bin:${{PATH}}",
        "ROCM_PATH": str(dtk),
    }
    assert (loaded.stops_under_u, loaded.problem) == (True, "")


def test_a_shell_that_has_set_u_for_all_does_not_stop_it(dtk: Path) -> None:
    assert load(dtk, SHELLOPTS="nounset:errexit").difference == load(dtk).difference


def test_a_shell_that_has_loaded_it_before_gives_the_same_difference(dtk: Path) -> None:
    again = load(dtk, PATH=f"{dtk}/bin:/usr/bin:/bin", ROCM_PATH=str(dtk))
    assert again.difference == load(dtk).difference


def test_a_library_path_that_is_set_stays_behind_the_toolkits(dtk: Path) -> None:
    value = load(dtk, LD_LIBRARY_PATH="/a:/b").difference["LD_LIBRARY_PATH"]
    assert value == f"{dtk}/lib:${{LD_LIBRARY_PATH}}"


@pytest.mark.parametrize(
    ("body", "problem"),
    [("exit 4\n", "it ends the shell"), ("echo no such card; exit 1\n", "no such card")],
)
def test_an_env_sh_that_ends_the_shell_is_a_problem(dtk: Path, body: str, problem: str) -> None:
    (dtk / "env.sh").write_text(body)
    assert load(dtk).problem == f"env.sh stopped: {problem}"


def test_a_toolkit_without_env_sh_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path) == toolkit.Toolkit(tmp_path, problem="no env.sh in the toolkit")
    assert toolkit.load("", "hip", env(), tmp_path / "log") == toolkit.Toolkit()


def test_the_difference_is_applied_to_another_environment(
    dtk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/opt/tools:/usr/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    made = shell.environment("", load(dtk).difference)
    assert made["PATH"] == f"{dtk}/bin:/opt/tools:/usr/bin"
    assert made["LD_LIBRARY_PATH"] == f"{dtk}/lib", "no empty part: that is the current folder"
    assert made["GREETING"] == "two\nlines"


def test_paths_below_the_home_folder_survive_the_facts(
    dtk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records show the home folder as ~, and nothing else undoes that."""
    monkeypatch.setenv("HOME", str(dtk.parent))
    difference = load(dtk).difference
    facts = {"os": "", "kernel": "", "cpu": None, "cores": 1, "memory_bytes": 1, "python": "",
             "cmake": "", "ninja": "", "cxx": None, "environment": difference}  # fmt: skip
    stored = redacted(EnvFacts.model_validate(facts).model_dump())
    assert stored["environment"]["ROCM_PATH"] == "~/dtk"
    made = shell.environment("", EnvFacts.model_validate(stored).environment)
    assert made["ROCM_PATH"] == str(dtk)
    assert made["PATH"] == f"{dtk}/bin:{os.environ['PATH']}"


def test_another_root_is_named(dtk: Path, tmp_path: Path) -> None:
    inside = env(ROCM_PATH=str(dtk), HIP_PATH=f"{dtk}/hip")
    assert toolkit.other_roots(dtk, inside) == []
    link = tmp_path / "link"
    link.symlink_to(dtk)
    assert toolkit.other_roots(link, inside) == []
    mixed = {**inside, "HIP_PATH": "/opt/rocm/hip"}
    assert toolkit.other_roots(dtk, mixed) == ["HIP_PATH=/opt/rocm/hip"]
    (dtk / "hipcc").write_text("#!/bin/sh\n")
    (tmp_path / "hipcc").write_text("#!/bin/sh\n")
    (tmp_path / "hipcc").chmod(0o755)
    stray = {**inside, "PATH": str(tmp_path)}
    assert toolkit.other_roots(dtk, stray) == [f"hipcc={tmp_path}/hipcc"]
