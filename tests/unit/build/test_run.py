from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import cache, result, run
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


def test_compile_error_is_shown_with_its_line_and_target(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(cmake_options={"TINY_BROKEN": "ON"})
    with pytest.raises(KeyelabError, match="compile ended with status 1") as error:
        build(plan, tmp_path / "build.log")
    assert "undeclared_name" in error.value.message
    assert "broken.cpp.o" in error.value.message
    assert "  | " in error.value.message
    assert "build.log" in error.value.hint


def test_failed_configure_tells_the_cause(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(cmake_options={"TINY_FATAL": "ON"})
    with pytest.raises(KeyelabError, match="At least ROCM/HIP") as error:
        build(plan, tmp_path / "build.log")
    assert "configure ended with status 1" in error.value.message
    assert "recipe" in error.value.hint


def test_option_that_cmake_ignores_is_refused_and_its_new_name_told(
    make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(cmake_options={"LLAMA_HIPBLAS": "ON"})
    with pytest.raises(KeyelabError, match="it ignored LLAMA_HIPBLAS") as error:
        build(plan, tmp_path / "build.log")
    assert "LLAMA_HIPBLAS is now GGML_HIP" in error.value.message
    assert not (plan.bin_dir / "llama-server").exists()


def test_gpu_switch_that_the_tree_does_not_know_is_refused(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(backend="cuda", gpu_targets="90")
    with pytest.raises(KeyelabError, match="it ignored GGML_CUDA"):
        build(plan, tmp_path / "build.log")


def test_own_switch_that_an_older_tree_does_not_know_is_harmless(make_plan: Any) -> None:
    run.check_options_used(make_plan(), ["LLAMA_BUILD_APP", "LLAMA_BUILD_UI"])


def test_status_zero_without_the_program_is_a_failure(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan()
    stub = tmp_path / "stub"
    stub.write_text("#!/bin/sh\necho done\n")
    stub.chmod(0o755)
    import dataclasses

    fooled = dataclasses.replace(plan, configure=(str(stub),), compile=(str(stub),))
    with pytest.raises(KeyelabError, match="no llama-server, llama-bench"):
        build(fooled, tmp_path / "build.log")


def test_same_tree_at_another_path_starts_afresh(make_plan: Any, tmp_path: Path) -> None:
    import shutil

    plan = make_plan()
    build(plan, tmp_path / "build.log")
    moved = tmp_path / "moved"
    shutil.move(plan.source, moved)
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
        "import os, pickle, sys\n"
        "from pathlib import Path\n"
        "from keyelab.build import cache, run\n"
        f"plan = pickle.loads({__import__('pickle').dumps(plan)!r})\n"
        "tell = lambda fraction, text: print(text, flush=True)\n"
        "with cache.locked(plan, tell) as lock:\n"
        f"    run.build(plan, os.environ, Path({str(tmp_path / 'v.log')!r}), tell, [lock])\n"
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
    with cache.locked(plan, quiet):
        assert time.monotonic() - started < 30, "the orphan must not hold the folder for long"
    assert cache.finished(plan) is None
