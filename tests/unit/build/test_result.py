from __future__ import annotations

from pathlib import Path
from typing import Any

from keyelab.build import result
from keyelab.build.result import Result


def seen(**given: Any) -> Result:
    values: dict[str, Any] = {
        "version": "b1-x",
        "backends": ["CPU"],
        "devices": [],
        "unresolved": [],
        "gpu_targets": None,
        "binaries": {},
    }
    return Result(**{**values, **given})


def statuses(plan: Any, found: Result) -> dict[str, str]:
    return {item.name: item.status for item in result.checks(plan, found)}


def test_version_is_read_with_its_commit() -> None:
    text = "version: 10019 (0123456789ab)\nbuilt with GNU 12.2.0 for Linux x86_64\n"
    assert result.parse_version(text) == "b10019-0123456789ab"
    text = "version: 0.1.2-dev (build 10502, commit 0123456789ab)\nbuilt with GNU 12.2.0\n"
    assert result.parse_version(text) == "b10502-0123456789ab"
    assert result.parse_version("error while loading shared libraries") is None


def test_devices_are_read() -> None:
    text = "Available devices:\n  ROCm0: K100_AI (65520 MiB, 65400 MiB free)\n"
    assert result.parse_devices(text) == ["ROCm0: K100_AI (65520 MiB, 65400 MiB free)"]
    assert result.parse_devices("Available devices:\n") == []


def test_binary_of_another_source_fails(make_plan: Any) -> None:
    assert statuses(make_plan(), seen())["binary reports our source"] == "failed"


def test_library_that_is_not_found_fails(make_plan: Any) -> None:
    found = statuses(make_plan(), seen(unresolved=["libgalaxyhip.so.5"]))
    assert found["libraries resolve"] == "failed"


def test_unreadable_libraries_are_unknown(make_plan: Any) -> None:
    assert statuses(make_plan(), seen(unresolved=None))["libraries resolve"] == "unknown"


def test_hip_build_without_hip_backend_fails(make_plan: Any) -> None:
    plan = make_plan(backend="hip", gpu_targets="gfx928")
    found = statuses(plan, seen(version=plan.version))
    assert found["HIP backend"] == "failed"


def test_hip_build_for_the_wrong_card_fails(make_plan: Any) -> None:
    plan = make_plan(backend="hip", gpu_targets="gfx928")
    name = "GPU target in the code objects"
    right = seen(backends=["CPU", "HIP"], gpu_targets=["gfx928"])
    assert statuses(plan, right)[name] == "ok"
    assert statuses(plan, seen(gpu_targets=["gfx1100", "gfx90a"]))[name] == "failed"
    assert statuses(plan, seen(gpu_targets=None))[name] == "unknown"


def test_targets_are_read_from_the_code_objects(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    library = tmp_path / "bin" / "libggml-hip.so"
    library.write_bytes(b"\0hipv4-amdgcn-amd-amdhsa--gfx928:sramecc+\0gfx1100 in a message\0")
    assert result.hip_targets(tmp_path) == ["gfx928"]
    assert result.backends(tmp_path) == ["HIP"]


def test_base_library_is_no_backend(tmp_path: Path) -> None:
    for name in ("libggml-base.so", "libggml-cpu.so", "libggml.so"):
        (tmp_path / name).touch()
    assert result.backends(tmp_path) == ["CPU"]
