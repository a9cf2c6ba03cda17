from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from keyelab.build import plan
from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import HeaderFacts

HIP = {"backend": "hip", "gpu_targets": "gfx928"}
FLAG = "--gpu-max-threads-per-block=1024"


def test_cpu_plan_builds_three_programs_without_tests(make_plan: Any) -> None:
    made = make_plan()
    assert made.programs == ("llama-server", "llama-bench", "llama-quantize")
    assert made.options["LLAMA_BUILD_TESTS"] == "OFF"
    assert not {name for name in made.options if name.startswith("GGML_")}
    for switch in ("LLAMA_BUILD_UI", "LLAMA_OPENSSL", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP"):
        assert made.options[switch] == "OFF"


def test_binary_is_told_the_tag_number_and_the_tree_digest(make_plan: Any) -> None:
    made = make_plan()
    assert made.options["LLAMA_BUILD_NUMBER"] == "10019"
    assert made.options["LLAMA_BUILD_COMMIT"] == made.inputs["tree"][:12]
    assert made.version == f"b10019-{made.inputs['tree'][:12]}"


def test_source_without_a_tag_reports_number_zero(make_plan: Any) -> None:
    assert make_plan(version="keye-vl-v2").version.startswith("b0-")


def test_hip_plan_sets_targets_and_builds_the_kernel_gate(make_plan: Any) -> None:
    made = make_plan(backend="hip", gpu_targets="gfx928")
    assert made.options["GGML_HIP"] == "ON"
    assert made.options["GPU_TARGETS"] == "gfx928"
    assert made.options["LLAMA_BUILD_TESTS"] == "ON"
    assert "test-backend-ops" in made.compile


def test_cuda_plan_sets_architectures(make_plan: Any) -> None:
    made = make_plan(backend="cuda", gpu_targets="90")
    assert made.options["GGML_CUDA"] == "ON"
    assert made.options["CMAKE_CUDA_ARCHITECTURES"] == "90"


def test_gpu_backend_without_targets_is_refused(make_plan: Any) -> None:
    with pytest.raises(UsageError, match="gpu_targets is empty") as error:
        make_plan(backend="hip")
    assert "gfx928" in error.value.hint


def test_header_overlay_comes_before_flags_of_the_user(make_plan: Any, tmp_path: Path) -> None:
    overlay = tmp_path / "over lay"
    overlay.mkdir()
    flags = "--gpu-max-threads-per-block=1024"
    made = make_plan(
        headers=HeaderFacts(overlay=str(overlay)),
        backend="hip",
        gpu_targets="gfx928",
        cmake_options={"CMAKE_HIP_FLAGS": flags},
    )
    assert made.options["CMAKE_HIP_FLAGS"] == f"-isystem '{overlay}' {flags}"


def test_cmake_options_win_over_defaults(make_plan: Any) -> None:
    made = make_plan(cmake_options={"LLAMA_BUILD_TESTS": "ON", "GGML_NATIVE": "OFF"})
    assert made.options["LLAMA_BUILD_TESTS"] == "ON"
    assert "-DGGML_NATIVE=OFF" in made.configure


def test_option_that_a_parameter_owns_is_refused(make_plan: Any) -> None:
    with pytest.raises(UsageError, match=r"build\.build_type"):
        make_plan(cmake_options={"CMAKE_BUILD_TYPE": "Debug"})


def test_jobs_default_to_one_a_core(make_plan: Any) -> None:
    assert make_plan().compile[3:5] == ("-j", "2")
    assert make_plan(jobs=7).compile[3:5] == ("-j", "7")


def test_key_follows_inputs_and_not_jobs(make_plan: Any) -> None:
    key = make_plan().key
    assert make_plan(jobs=9).key == key
    assert make_plan(build_type="Debug").key != key
    assert make_plan(compiler="cc 2.0").key != key
    assert make_plan(cmake_options={"GGML_NATIVE": "OFF"}).key != key


def test_key_follows_the_content_of_the_overlay(make_plan: Any, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    hip = {"backend": "hip", "gpu_targets": "gfx928", "headers": HeaderFacts(overlay=str(overlay))}
    key = make_plan(**hip).key
    (overlay / "info.h").write_text("x")
    assert make_plan(**hip).key != key


def test_command_is_one_line_that_a_shell_takes(make_plan: Any) -> None:
    import shlex

    command = make_plan().command
    assert "\n" not in command
    words = shlex.split(command)
    assert words[0] == "env"
    assert words.count("&&") == 1


def test_edited_tree_is_noticed(make_plan: Any, tmp_path: Path) -> None:
    made = make_plan()
    plan.check_tree(made)
    (tmp_path / "tree" / "main.cpp").write_text("")
    with pytest.raises(KeyelabError, match="expected the tree that 04_source_patch left"):
        plan.check_tree(made)


def test_missing_tree_is_named(make_plan: Any, tmp_path: Path) -> None:
    made = make_plan()
    shutil.rmtree(tmp_path / "tree")
    with pytest.raises(KeyelabError, match="found no folder") as error:
        plan.check_tree(made)
    assert "source_patch" in error.value.hint


def test_cpu_build_takes_no_overlay(make_plan: Any, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    made = make_plan(headers=HeaderFacts(overlay=str(overlay)))
    assert "CMAKE_HIP_FLAGS" not in made.options
    assert made.key == make_plan().key


def test_overlay_that_is_gone_is_named(make_plan: Any, tmp_path: Path) -> None:
    gone = HeaderFacts(overlay=str(tmp_path / "gone"))
    with pytest.raises(KeyelabError, match="expected the header overlay"):
        make_plan(backend="hip", gpu_targets="gfx928", headers=gone)


def test_recipe_options_are_in_a_hip_build_and_its_key(make_plan: Any) -> None:
    made = make_plan(asks={"cmake": {"CMAKE_HIP_FLAGS": FLAG, "GGML_HIP_MMQ_MFMA": "OFF"}}, **HIP)
    assert made.options["CMAKE_HIP_FLAGS"] == FLAG
    assert "-DGGML_HIP_MMQ_MFMA=OFF" in made.configure
    assert made.key != make_plan(**HIP).key


def test_hip_flags_of_overlay_recipe_and_user_add_up_in_this_order(
    make_plan: Any, tmp_path: Path
) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    made = make_plan(
        headers=HeaderFacts(overlay=str(overlay)),
        asks={"cmake": {"CMAKE_HIP_FLAGS": FLAG}},
        cmake_options={"CMAKE_HIP_FLAGS": "-Wall"},
        **HIP,
    )
    assert made.options["CMAKE_HIP_FLAGS"] == f"-isystem {overlay} {FLAG} -Wall"


def test_parameter_wins_over_the_recipe(make_plan: Any) -> None:
    made = make_plan(
        asks={"cmake": {"GGML_HIP_MMQ_MFMA": "OFF"}},
        cmake_options={"GGML_HIP_MMQ_MFMA": "ON"},
        **HIP,
    )
    assert made.options["GGML_HIP_MMQ_MFMA"] == "ON"


@pytest.mark.parametrize("given", [{}, {"backend": "cuda", "gpu_targets": "90"}])
def test_recipe_options_stay_out_of_other_builds(make_plan: Any, given: dict[str, str]) -> None:
    asked = make_plan(asks={"cmake": {"CMAKE_HIP_FLAGS": FLAG}}, **given)
    assert "CMAKE_HIP_FLAGS" not in asked.options
    assert asked.key == make_plan(**given).key
