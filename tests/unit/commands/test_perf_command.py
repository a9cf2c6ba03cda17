"""keyelab perf: its words, its JSON, its tables and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from keyelab.commands.perf import perf
from keyelab.errors import KeyelabError, UsageError
from keyelab.perf.reader import ARTICLE_LOG

DATA = Path(__file__).parents[2] / "data" / "perf"


def run(*args: str) -> Result:
    return CliRunner().invoke(perf, args, catch_exceptions=False)


def test_the_summary_says_why() -> None:
    told = run(str(ARTICLE_LOG), "--frames", "10", "--answer", "1703").output
    for words in (
        "113.33 s  model opened", "0.0169 ms per token of depth", "with them 0.016",
        "10 of 1,197 tokens", "reused never", "idle slots 346 ms", "predicted 10 frames",
    ):  # fmt: skip
        assert words in told
    assert "4.5 " not in told


def test_several_logs_and_old_ones_have_one_summary_each() -> None:
    logs = sorted(map(str, DATA.glob("*.log")))
    told = run(*logs).output
    assert all(f"{Path(log).name}:" in told for log in logs)
    assert "nan" not in told.lower()
    assert "None" not in told


def test_json_is_strict_and_whole() -> None:
    args = [str(ARTICLE_LOG), str(DATA / "2023_text.log"), "--json", "--frames", "2", "--answer"]
    told = json.loads(run(*args, "50").output, parse_constant=pytest.fail)
    first, second = told["servers"]
    assert told["schema"] == 1
    assert first["decode"]["n"] == 145
    assert [task["state"] for task in first["tasks"]] == ["finished"] * 3 + ["cancelled"]
    assert first["prediction"]["total_s"][0] > 0
    assert second["decode"] is None
    assert second["ready_s"] is None


def test_tables_are_written(tmp_path: Path) -> None:
    run(str(ARTICLE_LOG), "--csv", str(tmp_path / "new" / "folder"))
    names = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert names == {"servers.csv", "tasks.csv", "samples.csv", "chunks.csv", "events.csv"}
    assert len(pd.read_csv(tmp_path / "new" / "folder" / "samples.csv")) == 151


def test_what_is_no_log_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(KeyelabError, match="expected llama-server's lines"):
        run(str(path))
    for wrong in (str(tmp_path), str(tmp_path / "none.log")):
        with pytest.raises(UsageError, match="expected a log file"):
            run(wrong)
    with pytest.raises(UsageError, match="together"):
        run(str(ARTICLE_LOG), "--frames", "3")
    with pytest.raises(UsageError, match="found a file"):
        run(str(ARTICLE_LOG), "--csv", str(path))


def test_the_program_ends_with_the_error_s_code(tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).with_name("keyelab")), "perf", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("keyelab: expected a log file")
