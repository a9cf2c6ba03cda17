"""keyelab diagnose: its words, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from keyelab.commands.diagnose import diagnose
from keyelab.errors import UsageError

DATA = Path(__file__).parents[2] / "data" / "diagnose"


def run(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(diagnose, args, input=stdin, catch_exceptions=False)


def test_a_failure_is_named_and_exits_1() -> None:
    result = run(str(DATA / "warp_mask.log"))
    assert result.exit_code == 1
    assert "hadamard.cu:91" in result.output


def test_a_healthy_log_and_a_warning_alone_exit_0() -> None:
    assert run(str(DATA / "healthy")).exit_code == 0
    result = run("-", stdin=b"stop processing: n_tokens = 8, truncated = 1\n")
    assert result.exit_code == 0
    assert "cut" in result.output


def test_standard_input_is_read_and_the_unknown_exits_1_too() -> None:
    result = run("-", stdin=b"fine\nx.c:1:2: error: no member named 'q'\n")
    assert result.exit_code == 1
    assert "not known" in result.output
    assert ":2  x.c:1:2: error: no member" in result.output


def test_json_is_one_object() -> None:
    result = run("--json", str(DATA / "killed_behind_tee.log"), str(DATA / "healthy"))
    content = json.loads(result.output)
    assert (content["schema"], content["failed"], content["known"]) == (1, True, True)
    assert content["causes"][0]["id"] == "compiler-killed"
    assert len(content["sources"]) == 3
    assert result.exit_code == 1


def test_no_file_and_a_missing_one_are_usage_errors(tmp_path: Path) -> None:
    assert run().exit_code == 2
    with pytest.raises(UsageError, match="found none"):
        run(str(tmp_path / "none.log"))
    with pytest.raises(UsageError, match=r"\*\.log"):
        run(str(tmp_path))
