"""The steps of the CI examples, run as their platforms run them, on replayed output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from homes import ROOT, add_broken_target, latest, make_home

pytestmark = pytest.mark.source
CI = ROOT / "docs" / "ci"
GITHUB = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"]
GITLAB = yaml.safe_load((CI / "gitlab-ci.yml").read_text())


@pytest.fixture
def home(tmp_path: Path, llama_source: Path) -> Path:
    """A checkout with this environment as its .venv, and a target whose first check fails."""
    home = make_home(tmp_path)
    (home / ".venv").symlink_to(sys.prefix)
    add_broken_target(home)
    return home


def sh(home: Path, script: str, target: str) -> subprocess.CompletedProcess[str]:
    """Run a script as both platforms do: bash that stops at the first error."""
    env = {**os.environ, "KEYELAB_HOME": str(home), "KEYELAB_LOCKS": str(home / "locks")}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        words, cwd=home, env={**env, "TARGET": target}, capture_output=True, text=True, check=False
    )


def github(home: Path, job: str, target: str) -> dict[str, int]:
    """The exit codes of a job's steps but `install`; after a failure only those that always run."""
    codes: dict[str, int] = {}
    for step in GITHUB[job]["steps"]:
        if "run" not in step or step["name"] == "install":
            continue
        if any(codes.values()) and step.get("if") != "always()":
            continue
        codes[step["name"]] = sh(home, step["run"], target).returncode
    return codes


def outcome(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text())["metadata"]["keyelab"]
    return told


def test_a_github_run_leaves_a_record_and_its_provenance(home: Path) -> None:
    assert github(home, "run", "smoke") == {"run": 0, "verify": 0, "export": 0}
    statement = json.loads((home / "provenance.json").read_text())
    assert statement["subject"][0]["name"].startswith(latest(home, "smoke").name)


def test_a_github_run_that_fails_leaves_a_record_that_says_so(home: Path) -> None:
    assert github(home, "run", "broken") == {"run": 1, "verify": 0}
    run = json.loads((latest(home, "broken") / "run.json").read_text())
    assert run["status"] == "failed"
    assert run["phases"][0]["failure"]["message"].count("disk") >= 1


@pytest.mark.parametrize(
    ("target", "code", "told"), [("smoke", 0, "completed"), ("broken", 1, "failed")]
)
def test_a_github_phase_leaves_a_notebook_that_says_how_it_ended(
    home: Path, target: str, code: int, told: str
) -> None:
    assert github(home, "phase", target) == {"env_check": code}
    assert outcome(home / "records/ci/01_env_check.ipynb")["outcome"] == told
    assert (home / "records/ci/facts/env_check.json").exists()


@pytest.mark.parametrize("job", ["run", "phase"])
def test_a_gitlab_job_that_fails_keeps_its_records(home: Path, job: str) -> None:
    done = sh(home, "\n".join(GITLAB[job]["script"]), "broken")
    assert done.returncode == 1, done.stdout
    for line in GITLAB[job].get("after_script", []):
        assert sh(home, line, "broken").returncode == 0
    assert list((home / "records").rglob("01_env_check.ipynb")), "what artifacts: keeps"
