from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import result, run
from keyelab.errors import KeyelabError


def quiet(fraction: float | None, text: str) -> None:
    return None


def build(plan: Any, log: Path, on_progress: Any = quiet) -> None:
    run.build(plan, os.environ, log, on_progress)


def test_tiny_project_is_built_with_progress_and_a_log(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    told: list[float | None] = []
    build(plan, tmp_path / "build.log", lambda fraction, text: told.append(fraction))
    seen = result.look(plan, os.environ)
    assert seen.version == plan.version
    assert seen.backends == ["CPU"]
    assert seen.devices == []
    assert seen.unresolved == []
    assert [item.status for item in result.checks(plan, seen)] == ["ok", "ok"]
    assert {"llama-server", "llama-bench", "llama-quantize", "libggml-cpu.so"} == set(seen.binaries)
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert "exit status 0" in (tmp_path / "build.log").read_text()


@pytest.mark.parametrize(
    ("line", "fraction", "text"),
    [
        (
            "[3/9] Building CXX object a.dir/b-cpu/repack.cpp.o",
            3 / 9,
            "3 of 9: compiling repack.cpp",
        ),
        ("[9/9] Linking CXX executable bin/llama-server", 1.0, "9 of 9: linking llama-server"),
        ("[7/9] Linking CXX shared library bin/libggml.so", 7 / 9, "7 of 9: linking libggml.so"),
        ("[0/0] nothing", 0.0, "0 of 0: nothing"),
    ],
)
def test_progress_is_read_from_what_ninja_prints(line: str, fraction: float, text: str) -> None:
    assert run.progress(line) == (fraction, text)
    assert run.progress(f"a.cpp:1:2: warning: {line}") is None


def test_compile_error_is_shown_with_its_line_and_context(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(cmake_options={"TINY_BROKEN": "ON"})
    with pytest.raises(KeyelabError, match="ninja ended with status 1") as error:
        build(plan, tmp_path / "build.log")
    assert "\n" not in error.value.message
    assert "undeclared_name" in error.value.message
    assert "broken.cpp" in error.value.message
    assert error.value.hint.endswith("build.log")
    assert "The cause is not known" in error.value.diagnosis


def test_failed_configure_tells_the_cause(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(cmake_options={"TINY_FATAL": "ON"})
    log = tmp_path / "build.log"
    log.write_text("c++: fatal error: Killed signal terminated program cc1plus\n")
    with pytest.raises(KeyelabError, match="cmake ended with status 1: The HIP version") as error:
        build(plan, log)
    lines = log.read_text().splitlines()
    number = lines.index("  At least ROCM/HIP V6.1 is required") + 1
    assert f"build.log:{number}: At least ROCM/HIP V6.1 is required" in error.value.message
    assert "recipe=k100ai" in error.value.hint
    assert "**The HIP version gate stops CMake**" in error.value.diagnosis
    assert "Killed" not in error.value.diagnosis, "an earlier command of the log is another story"


def test_command_without_words_is_told_by_its_status(make_plan: Any, tmp_path: Path) -> None:
    silent = dataclasses.replace(make_plan(), configure=("false",))
    with pytest.raises(KeyelabError, match=r"^false ended with status 1: # .* \$ false; log: "):
        build(silent, tmp_path / "build.log")


def test_options_that_cmake_did_not_use_are_listed() -> None:
    log = Path(__file__).parents[2] / "data" / "build" / "old_option_name.log"
    assert run.unused_options(log.read_text()) == ["AMDGPU_TARGETS", "LLAMA_HIPBLAS"]
    assert run.unused_options("-- Configuring done\n") == []


def test_option_that_cmake_ignores_is_refused(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(cmake_options={"LLAMA_HIPBLAS": "ON"})
    with pytest.raises(KeyelabError, match="it ignored LLAMA_HIPBLAS") as error:
        build(plan, tmp_path / "build.log")
    assert "build.cmake_options" in error.value.hint
    assert not (plan.bin_dir / "llama-server").exists()


def test_gpu_switch_that_the_tree_does_not_know_is_refused(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(backend="cuda", gpu_targets="90")
    with pytest.raises(KeyelabError, match="it ignored GGML_CUDA"):
        build(plan, tmp_path / "build.log")


def test_status_zero_without_the_program_is_a_failure(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    stub = tmp_path / "stub"
    stub.write_text("#!/bin/sh\necho done\n")
    stub.chmod(0o755)
    fooled = dataclasses.replace(plan, configure=(str(stub),), compile=(str(stub),))
    with pytest.raises(KeyelabError, match="expected llama-server, llama-bench"):
        build(fooled, tmp_path / "build.log")


def test_same_tree_at_another_path_starts_afresh(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    build(plan, tmp_path / "build.log")
    moved = tmp_path / "moved"
    shutil.move(tmp_path / "tree", moved)
    again = make_plan(tree=moved)
    assert again.key == plan.key
    build(again, tmp_path / "build.log")
    assert (again.bin_dir / "llama-server").is_file()


def test_build_of_a_killed_process_leaves_no_writer_and_resumes(
    make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(cmake_options={"TINY_SLOW": "ON"})
    script = tmp_path / "victim.py"
    script.write_text(
        "import os, pickle\n"
        "from pathlib import Path\n"
        "from keyelab.build import run\n"
        f"plan = pickle.loads({pickle.dumps(plan)!r})\n"
        "tell = lambda fraction, text: print(text, flush=True)\n"
        f"run.build(plan, os.environ, Path({str(tmp_path / 'v.log')!r}), tell)\n"
    )
    victim = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    for line in victim.stdout:
        if "linking llama-quantize" in line:
            break
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    started = time.monotonic()
    with run.locked(plan, quiet):
        assert time.monotonic() - started < 30, "the orphan must not hold the folder for long"
    assert not result.finished(plan)


def test_second_writer_waits_for_a_child_that_inherited_the_lock(make_plan: Any) -> None:
    plan = make_plan()
    said: list[str] = []
    with run.locked(plan, quiet) as lock:
        sleeper = subprocess.Popen(["sleep", "1"], pass_fds=[lock])
    started = time.monotonic()
    with run.locked(plan, lambda _, text: said.append(text)):
        waited = time.monotonic() - started
    sleeper.wait()
    assert waited > 0.3
    assert said[0].startswith("waiting for the writer of this build: fuser ")
