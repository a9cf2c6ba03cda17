"""keyelab report: of a run, of a folder of runs, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_runs import make_run

from keyelab.cli import cli
from keyelab.errors import KeyelabError, UsageError


def report(*words: str | Path) -> Result:
    done = CliRunner().invoke(cli, ["report", *map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def records(checkout: Any) -> Path:
    folder: Path = checkout.root / "records"
    make_run(folder / "cpu-demo", 1)
    make_run(folder / "k100ai", 2, failed="build", target="k100ai")
    return folder


def test_a_folder_gets_a_page_and_a_table(records: Path) -> None:
    said = report(records).output
    assert "2 runs: 1 failed, 1 passed" in said
    assert said.endswith("page: records/index.html\n")
    assert "<h1>records</h1>" in (records / "index.html").read_text()


def test_the_page_goes_where_it_is_asked_for(records: Path, tmp_path: Path) -> None:
    report(records / "k100ai", "-o", tmp_path / "new" / "page.html")
    assert "1 run: 1 failed" in (tmp_path / "new" / "page.html").read_text()
    assert not (records / "k100ai" / "index.html").exists()


def test_json_of_a_folder_is_one_object_and_no_page(records: Path) -> None:
    told = json.loads(report(records, "--json").output)
    assert told["schema"] == 1
    assert [run["target"] for run in told["runs"]] == ["k100ai", "cpu-demo"]
    assert told["runs"][1]["speed"]["decode_tps"] == 20.0
    assert told["failures"][0]["count"] == 1
    assert not (records / "index.html").exists()


def test_a_run_is_summarized_as_before(records: Path) -> None:
    (run,) = (records / "cpu-demo").iterdir()
    assert report(run).output.startswith(f"cpu-demo {run.name}: passed\n")
    assert json.loads(report(run, "--json").output)["run_id"] == run.name


def test_wrong_arguments_are_one_sentence(records: Path, tmp_path: Path) -> None:
    (run,) = (records / "cpu-demo").iterdir()
    with pytest.raises(UsageError, match="expected a folder of runs with -o"):
        report(run, "-o", "x.html")
    with pytest.raises(KeyelabError, match="expected a file at"):
        report(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="found the file"):
        report(run / "run.json")
    (run / "run.json").unlink()
    with pytest.raises(KeyelabError, match=r"run\.json, found none"):
        report(run)
