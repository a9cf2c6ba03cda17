"""A failing cell shows what the logs of its phase say, once, and a sentence after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyelab import pipeline
from keyelab.record import run as records
from keyelab.record.failure import Logs

KILLED = "clang++: error: unable to execute command: Killed\n"
RAISE = "from keyelab.errors import KeyelabError\n"


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    (tmp_path / "05_build.log").write_text(KILLED)
    return Logs(tmp_path, "05_build")


def test_what_stood_there_before_is_another_story(logs: Logs) -> None:
    assert logs.diagnosis() == ""


def test_a_log_is_read_from_where_the_last_failure_left_it(logs: Logs) -> None:
    log = logs.folder / "05_build.log"
    log.write_text(KILLED + "ok\n" + KILLED)
    assert "The compiler was killed" in logs.diagnosis()
    assert logs.diagnosis() == ""
    log.write_text(log.read_text() + "ld: cannot find -lhipblas: No such file or directory\n")
    known = logs.diagnosis()
    assert "The library hipblas" in known
    assert "05_build.log:4" in known, "lines are counted from the beginning of the file"
    assert "Killed" not in known


def test_the_logs_of_a_phase_are_one_story_in_the_order_of_time(logs: Logs) -> None:
    (logs.folder / "05_build-gate.log").write_text(
        "Launch params (1024, 1, 1) are larger than launch bounds (256) for kernel f\n"
    )
    (logs.folder / "06_serve.log").write_text(KILLED)
    known = logs.diagnosis()
    assert known.startswith("**f is started with more threads")
    assert "Killed" not in known


@pytest.mark.parametrize(
    "name",
    ["05_build-probe.log", "05_build-kernel.log", "05_build-server-8082.log", "05_build-x.jsonl"],
)
def test_logs_with_failures_on_purpose_or_of_others_are_passed_over(logs: Logs, name: str) -> None:
    (logs.folder / name).write_text(KILLED)
    assert logs.diagnosis() == ""
    headers = Logs(logs.folder, "03_header_fixes")
    (logs.folder / "03_header_fixes.log").write_text(KILLED)
    assert headers.diagnosis() == ""


def test_what_is_not_known_is_not_shown(logs: Logs) -> None:
    (logs.folder / "05_build.log").write_text(KILLED + "x: error: something nobody has listed\n")
    assert logs.diagnosis() == ""


def failed_build(checkout: Any, middle: str) -> tuple[Path, str]:
    """The run folder and the markdown shown by a build whose middle cell is `middle`."""
    checkout.write("build", middle)
    todo = pipeline.plan("cpu-demo", None, "build", {})
    folder, code = pipeline.run(todo, ["keyelab", "run"], lambda line: None)
    assert code
    book = json.loads((folder / "05_build.ipynb").read_text())
    shown = ["".join(book["cells"][0]["source"])]
    for cell in book["cells"]:
        for output in cell.get("outputs", []):
            shown.append("".join(output.get("data", {}).get("text/markdown", "")))
    return folder, "\n".join(shown)


def test_a_record_shows_the_diagnosis_and_the_summary_one_sentence(checkout: Any) -> None:
    folder, shown = failed_build(
        checkout,
        f"step.log().write_text({KILLED!r})\n{RAISE}raise KeyelabError('no build', 'make help')",
    )
    assert "**The compiler was killed, most likely for lack of memory**" in shown
    assert "05_build.log:1" in shown
    failure = records.load(folder).phases[4].failure
    assert failure is not None
    assert failure.message == "KeyelabError: no build\n  next: make help"
    assert not [line for line in pipeline.summary(folder) if "compiler was killed" in line]


def test_an_error_that_brings_its_own_diagnosis_shows_that_one(checkout: Any) -> None:
    _, shown = failed_build(
        checkout,
        f"step.log().write_text({KILLED!r})\n{RAISE}raise KeyelabError('a', 'b', '**the cause**')",
    )
    assert "**the cause**" in shown
    assert "compiler was killed" not in shown


def test_the_banner_of_a_dead_kernel_tells_what_the_logs_say(checkout: Any) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    _, shown = failed_build(checkout, f"step.log().write_text({KILLED!r})\n{kill}")
    assert shown.startswith("**failed: the kernel died")
    assert "**The compiler was killed" in shown
