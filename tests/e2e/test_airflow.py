"""The Airflow example, run by Airflow: by the Python that KEYELAB_AIRFLOW_PYTHON names, or ours."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from homes import ROOT, add_broken_target, latest, make_home

PYTHON = os.environ.get("KEYELAB_AIRFLOW_PYTHON", "")
pytestmark = [
    pytest.mark.source,
    pytest.mark.skipif(
        not PYTHON and importlib.util.find_spec("airflow") is None,
        reason="needs apache-airflow and apache-airflow-providers-papermill: a Python that has "
        "them in KEYELAB_AIRFLOW_PYTHON",
    ),
]


class Airflow:
    """An Airflow with the example as its only file of DAGs, and a checkout that it runs in."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        make_home(self.home)
        (self.home / ".venv").symlink_to(sys.prefix)
        add_broken_target(self.home)
        (folder / "dags").mkdir()
        shutil.copy(ROOT / "docs" / "ci" / "airflow_dag.py", folder / "dags" / "keyelab_dag.py")
        kernel = ["-m", "ipykernel", "install", "--prefix", str(folder), "--name", "keyelab"]
        subprocess.run([sys.executable, *kernel], check=True, capture_output=True)
        self.env = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "JUPYTER_PATH": str(folder / "share" / "jupyter"),
            "KEYELAB_HOME": str(self.home),
            "KEYELAB_LOCKS": str(self.home / "locks"),
            "PYTHONPATH": str(ROOT),  # as pip install --no-deps -e does
        }
        self("db", "migrate")

    def __call__(self, *words: str, target: str = "smoke") -> subprocess.CompletedProcess[str]:
        """What the airflow command says."""
        return subprocess.run(
            [PYTHON or sys.executable, "-m", "airflow", *words],
            env={**self.env, "KEYELAB_TARGET": target},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def notebooks(self, target: str) -> dict[str, dict[str, Any]]:
        """How each executed notebook says that it ended."""
        paths = sorted((self.home / "records" / target).glob("airflow-*/*.ipynb"))
        return {path.stem: json.loads(path.read_text())["metadata"]["keyelab"] for path in paths}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, llama_source: Path) -> Airflow:
    """One for all tests."""
    return Airflow(tmp_path_factory.mktemp("airflow"))


def test_papermill_s_operator_runs_all_phases_and_stops_the_server(airflow: Airflow) -> None:
    done = airflow("dags", "test", "keyelab_phases")
    assert done.returncode == 0, done.stdout[-3000:]
    told = airflow.notebooks("smoke")
    assert len(told) == 8
    assert {notebook["outcome"] for notebook in told.values()} == {"completed"}
    assert "stopped the server on port" in done.stdout


def test_a_failed_phase_fails_its_task_and_its_notebook_is_there(airflow: Airflow) -> None:
    done = airflow("dags", "test", "keyelab_phases", target="broken")
    assert done.returncode != 0, "a teardown does not hide the failure"
    assert airflow.notebooks("broken").keys() == {"01_env_check"}, "later tasks did not run"
    assert airflow.notebooks("broken")["01_env_check"]["outcome"] == "failed"
    assert "no server to stop" in done.stdout, "the teardown ran"


def test_a_whole_run_that_fails_fails_its_task_and_its_record_is_there(airflow: Airflow) -> None:
    done = airflow("dags", "test", "keyelab_run", target="broken")
    assert done.returncode != 0
    run = json.loads((latest(airflow.home, "broken") / "run.json").read_text())
    assert run["status"] == "failed"
