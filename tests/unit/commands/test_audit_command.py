"""keyelab audit: what it lists, its JSON, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from keyelab.commands.audit import audit
from keyelab.errors import UsageError


def call(*words: object) -> Result:
    return CliRunner().invoke(audit, [str(word) for word in words])


@pytest.mark.source
def test_the_pinned_tree_fails_and_each_fault_is_a_line(llama_source: Path) -> None:
    done = call(llama_source)
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (
        "norm.cu:319 rms_norm_f32<1024, false> 1,024 threads, no explicit bound RMS_NORM" in lines
    )
    assert "222 launches, 36 listed, 3 never started on gfx928" in lines
    assert "failed launches of at most 256 threads" in lines
    assert "ok kernels agree with their launches" in lines
    assert sum("host and device agree about gfx928" in line for line in lines) == 5


@pytest.mark.source
def test_json_holds_every_launch_and_every_check(llama_source: Path) -> None:
    done = call(llama_source, "--json", "--limit", 1024, "--arch", "gfx906")
    content = json.loads(done.stdout)
    assert [content[key] for key in ("schema", "arch", "limit")] == [1, "gfx906", 1024]
    assert content["outcome"] == "passed", [c for c in content["checks"] if c["status"] != "ok"]
    assert done.exit_code == 0
    assert len(content["launches"]) == 222
    (argmax,) = [one for one in content["launches"] if one["kernel"] == "argmax_f32"]
    assert (argmax["file"], argmax["line"], argmax["threads"]) == ("argmax.cu", 90, 1024)
    assert argmax["ops"] == ["ARGMAX"]


def test_a_folder_that_is_no_tree_is_one_clear_error(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert isinstance(done.exception, UsageError)
    assert "expected a llama.cpp tree with kernels in ggml/src/ggml-cuda" in str(done.exception)
