"""Failures as people reported them, retyped: each gets its cause, its echoes and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.diagnose import Finding, Report, diagnose

DATA = Path(__file__).parents[2] / "data" / "diagnose"
BUILD = Path(__file__).parents[2] / "data" / "build"
PERF = Path(__file__).parents[2] / "data" / "perf"


def ids(findings: list[Finding]) -> list[str]:
    return [found.entry.id for found in findings]


def steps(report: Report) -> str:
    return " ".join(step for found in report.causes for step in found.remedy)


@pytest.mark.parametrize(
    ("log", "causes", "line"),
    [
        ("version_gate.log", ["hip-version-gate"], 5),
        ("warp_mask.log", ["warp-mask"], 7),
        ("default_archs.log", ["device-library-missing"], 2),
        ("killed_behind_tee.log", ["compiler-killed"], 3),
        ("two_headers.log", ["header-asm-constraint", "header-any-redefined"], 4),
        ("launch_bounds.log", ["launch-bounds"], 3),
        ("vm_fault.log", ["launch-bounds"], 1),
        ("image_invalid.log", ["kernel-not-loadable"], 5),
        ("warmup_memory.log", ["gpu-memory"], 2),
        ("memory_slot.log", ["kv-cache-full"], 2),
        ("ubatch.log", ["ubatch-too-small"], 1),
    ],
)
def test_the_first_cause_is_named_with_its_line(log: str, causes: list[str], line: int) -> None:
    report = diagnose(DATA / log)
    assert report.failed
    assert ids(report.causes) == causes
    assert report.causes[0].line.number == line
    assert report.unlisted() == []


def test_the_version_gate_is_lifted_with_a_warning_and_not_in_silence() -> None:
    report = diagnose(DATA / "version_gate.log")
    assert "source_patch.recipe=k100ai" in steps(report)
    assert report.cause is not None
    assert "bf16" in report.cause.cause
    assert "below 6.1" in report.cause.cause


def test_a_warp_mask_points_at_the_caller_and_not_at_the_toolkits_header() -> None:
    report = diagnose(DATA / "warp_mask.log")
    assert report.cause is not None
    assert report.cause.title.endswith("hadamard.cu:91")
    assert "64 bits" in report.cause.cause
    assert "uint64_t" in steps(report)
    assert ids(report.echoes) == ["build-stopped"]


def test_default_targets_are_a_wrong_target_and_not_a_missing_library() -> None:
    report = diagnose(DATA / "default_archs.log")
    assert report.cause is not None
    assert "gfx1102, gfx90a" in report.cause.title
    assert "-DGPU_TARGETS=gfx928" in steps(report)
    assert "CMakeCache" in steps(report)
    assert "nogpulib" not in steps(report)
    assert report.cause.count == 3


def test_a_killed_compiler_fails_a_build_that_ended_with_status_0() -> None:
    report = diagnose(DATA / "killed_behind_tee.log")
    assert report.failed
    assert "build.jobs" in steps(report)
    assert report.cause is not None
    assert "not an error in the source" in report.cause.cause
    assert ids(report.echoes) == ["build-stopped", "compiler-crash"]


def test_an_option_with_an_old_name_fails_a_build_that_went_through() -> None:
    report = diagnose(BUILD / "old_option_name.log")
    assert ids(report.causes) == ["old-option-name"]
    assert "-DGGML_HIP=ON -DGPU_TARGETS=gfx928" in steps(report)
    assert report.cause is not None
    assert "HIPBLAS" in report.cause.title


def test_two_faults_of_one_header_are_two_findings_in_info_h() -> None:
    report = diagnose(DATA / "two_headers.log")
    for found in report.causes:
        assert "info.h" in found.cause + found.title
        assert "readlink -f /opt/dtk" in " ".join(found.remedy)
        assert "keyelab headers restore" in " ".join(found.remedy)


def test_a_launch_above_its_bounds_is_an_error_although_the_server_listens() -> None:
    report = diagnose(DATA / "launch_bounds.log")
    cause = report.cause
    assert cause is not None
    assert cause.entry.severity == "error"
    assert cause.title.startswith("soft_max_f32s is started with more threads (512, 1, 1)")
    assert "hardware" not in str(report).lower()
    assert "Workgroup Max Size" in cause.cause
    assert "wrong without any error" in cause.cause
    flag, lowered = (steps(report).index(f"recipe={name}") for name in ("flags", "article"))
    assert flag < lowered


def test_a_fault_after_a_launch_above_its_bounds_is_its_echo_and_names_the_victim() -> None:
    report = diagnose(DATA / "vm_fault.log")
    assert report.cause is not None
    assert "binning_kernel" in report.cause.title
    assert ids(report.echoes) == ["process-aborted", "vm-fault"]
    assert "splitRearrange" in report.echoes[1].title


def test_kernels_that_do_not_load_ask_for_a_build_for_this_card() -> None:
    report = diagnose(DATA / "image_invalid.log")
    assert "build.gpu_targets" in steps(report)
    assert "same DTK" in steps(report)
    assert report.cause is not None
    assert "health" in report.cause.cause


def test_memory_that_failed_at_warm_up_is_one_cause_before_and_after_the_crash() -> None:
    lines = (DATA / "warmup_memory.log").read_text().splitlines(keepends=True)
    for log in ("".join(lines[:5]), "".join(lines)):
        report = diagnose(log)
        assert ids(report.causes) == ["gpu-memory"]
        assert report.cause is not None
        assert "3120.50 MiB" in report.cause.cause
        assert "vision encoder" in report.cause.cause
        assert "HIP memory" in report.cause.cause
        assert "--no-mmproj-offload" in steps(report)


def test_a_full_context_is_no_limit_of_images_no_card_memory_and_no_bad_picture() -> None:
    report = diagnose(DATA / "memory_slot.log")
    assert report.cause is not None
    assert "neither a limit of ten images nor the card's memory" in report.cause.cause
    assert "serve.context_tokens" in steps(report)
    assert ids(report.echoes) == ["image-not-processed"]


def test_an_image_above_the_batch_names_the_argument_and_leaves_noise_out() -> None:
    report = diagnose([DATA / "ubatch.log", "the connection was lost before its first word"])
    assert "--ubatch-size" in steps(report)
    assert ids(report.causes) == ["ubatch-too-small"]
    assert "LWP" not in str(report)
    assert ids(report.echoes) == ["process-aborted", "connection-lost"]


@pytest.mark.parametrize(
    ("line", "cause", "named"),
    [
        (
            "clip_init: load_hparams: unknown projector type: keye_v3",
            "projector-unknown",
            "keye_v3",
        ),
        ("/src/tools/mtmd/clip.cpp:4391: Unknown projector type", "projector-unknown", ""),
        (
            "error loading model architecture: unknown model architecture: 'keye_v3_moe'",
            "model-architecture-unknown",
            "keye_v3_moe",
        ),
    ],
)
def test_a_build_that_does_not_know_the_model_asks_for_its_branch(
    line: str, cause: str, named: str
) -> None:
    report = diagnose(line + "\nAborted (core dumped)\n")
    assert ids(report.causes) == [cause]
    assert named in report.causes[0].title
    assert "branch" in report.causes[0].remedy[0]
    assert "model_fetch" not in steps(report)


def test_a_projector_without_a_type_comes_from_an_old_converter() -> None:
    report = diagnose("clip_init: load_hparams: unknown projector type: \n")
    assert ids(report.causes) == ["projector-without-type"]
    assert "converter" in report.causes[0].cause


def test_a_cut_context_is_a_warning_and_no_failure() -> None:
    report = diagnose(PERF / "speculative.log")
    assert ids(report.causes) == ["answer-cut"]
    assert not report.failed


@pytest.mark.parametrize("log", ["interleaved.log", "cached_prompt.log", "b10019_cpu_demo.log"])
def test_odd_but_healthy_logs_have_no_finding(log: str) -> None:
    report = diagnose(PERF / log)
    assert (report.causes, report.failed) == ([], False)


@pytest.mark.parametrize("content", ['""', "null"])
def test_an_answer_that_is_all_reasoning_is_warned_of(content: str) -> None:
    report = diagnose(
        '{"choices":[{"finish_reason":"length","message":{"content":' + content + "}}]}"
    )
    assert ids(report.causes) == ["only-reasoning"]
    assert not report.failed


def test_a_proxy_in_the_way_and_a_missing_key_are_told_from_loading() -> None:
    assert ids(diagnose("HTTP 503: proxy: host not allowed").causes) == ["proxy-answer"]
    assert ids(diagnose('{"error":{"message":"Invalid API Key"}}').causes) == ["wrong-api-key"]
    loading = diagnose('{"error":{"message":"Loading model","type":"unavailable_error"}}')
    assert (loading.causes, loading.failed) == ([], False)


def test_opencv_without_libgl_names_the_headless_wheel() -> None:
    report = diagnose("ImportError: libGL.so.1: cannot open shared object file: No such file")
    assert ids(report.causes) == ["opencv-libgl"]
    assert "opencv-python-headless" in steps(report)


def test_a_kernel_that_is_not_installed_is_three_lines_and_not_a_trace() -> None:
    trace = "Traceback (most recent call last):\n" + '  File "x.py", line 1, in y\n' * 40
    report = diagnose(trace + "jupyter_client.kernelspec.NoSuchKernel: No such kernel named dtk\n")
    assert ids(report.causes) == ["kernel-name"]
    assert "-k python3" in steps(report)
    assert "dtk" in report.causes[0].title
