"""What is shown: short names, filled sentences, no secrets."""

from __future__ import annotations

import json

import pytest

from keyelab.diagnose import diagnose
from keyelab.diagnose.entry import catalogue
from keyelab.diagnose.finding import quoted, short
from keyelab.files import project_root


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZL12rms_norm_f32ILi1024ELb0ELb0EEvPKfPfilllfS1_", "rms_norm_f32"),
        ("_Z14binning_kerneljP20ReconstructionSamplePjS1_S1_jj", "binning_kernel"),
        ("_ZN2at6native13reduce_kernelILi512EEEvT_", "reduce_kernel"),
        ("void rms_norm_f32<1024, false>(float const*)", "rms_norm_f32"),
        ("mul_mat_f", "mul_mat_f"),
        ("_Z", "_Z"),
        ("_Z99999999999x", "_Z99999999999x"),
    ],
)
def test_a_kernel_has_a_short_name(symbol: str, name: str) -> None:
    assert short(symbol) == name


def test_values_that_differ_are_all_named_and_the_same_ones_once() -> None:
    log = "".join(
        f"dcc: error: cannot find ROCm device library for {arch}\n"
        for arch in ("gfx1030", "gfx90a", "gfx1030", "gfx1100")
    )
    cause = diagnose(log).cause
    assert cause is not None
    assert cause.title == "Compiling for cards that are not here: gfx1030, gfx90a, gfx1100"
    assert cause.count == 4


def test_a_value_that_is_not_there_is_three_dots() -> None:
    cause = diagnose("clip.cpp:4391: Unknown projector type\n").cause
    assert cause is not None
    assert cause.title.endswith("the projector …")


def test_no_secret_and_no_path_of_the_checkout_is_shown() -> None:
    line = f"llama-server --api-key sk-verysecret12345 {project_root()}/m.gguf: Invalid API Key"
    report = diagnose(line)
    for text in (str(report), json.dumps(report.as_json()), str(report.rows())):
        assert "verysecret" not in text
        assert str(project_root()) not in text
    assert len(quoted("x" * 5000)) < 250


def test_a_row_says_where_what_why_and_what_to_do() -> None:
    (row,) = diagnose("ninja: error: x\nld: cannot find -lhipblas\n").rows()
    assert list(row) == ["where", "what", "cause", "remedy"]
    assert row["where"] == "text:2"
    assert "hipblas" in row["what"]
    assert "`ldconfig -p | grep hipblas`" in row["remedy"]


def test_json_holds_everything_that_the_text_does() -> None:
    content = diagnose("x\nld: cannot find -lhipblas\nld returned 1 exit status\n").as_json()
    assert json.loads(json.dumps(content)) == content
    (cause,) = content["causes"]
    assert (cause["id"], cause["line"], cause["count"]) == ("link-library-not-found", 2, 1)
    assert "> ld: cannot find -lhipblas" in cause["context"]
    assert content["echoes"] == [{"id": "build-stopped", "line": 3, "count": 1}]


def test_a_fence_is_longer_than_one_in_the_log() -> None:
    text = str(diagnose("```\nld: cannot find -lhipblas\n"))
    assert "````text" in text


def test_what_explains_another_is_never_explained_by_it() -> None:
    explains = {entry.id: set(entry.explains) for entry in catalogue().entries}

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            todo += (new := explains[todo.pop()] - seen)
            seen |= new
        return seen

    assert [name for name in explains if name in reached(name)] == []


def test_one_line_and_one_step_can_be_quoted_in_an_error() -> None:
    known = diagnose("x\nclang++: error: unable to execute command: Killed\n")
    assert known.line is not None
    assert known.line.text.endswith("Killed")
    assert known.hint.startswith("keyelab run --from build --set build.jobs=")
    unknown = diagnose("x\ny.c:1:1: error: no member named 'q'\nz\n")
    assert unknown.line is not None
    assert (unknown.line.number, unknown.hint) == (2, "")
    nothing = diagnose("x\nz\n")
    assert nothing.line is not None
    assert (nothing.line.text, nothing.failed) == ("z", False)
    assert diagnose("").line is None
