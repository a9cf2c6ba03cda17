"""The machine and its tools: read as they are, unknown where they are not readable."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyelab.checks import Check
from keyelab.files import shown
from keyelab.host import checks, machine, toolkit
from keyelab.host.inventory import Cards, Seen
from keyelab.params import EnvCheck


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def env(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder)}


def check_of(name: str, env: Mapping[str, str], backend: str, named: str = "") -> Check:
    found = list(checks.tool_checks(machine.look(env, backend), env))
    if backend != "cpu":
        kit, log = toolkit.load(named, backend, env, Path("/dev/null")), Path("/dev/null")
        nothing = Cards(Seen(Path("/")))
        found += toolkit.toolkit_checks(kit, EnvCheck(backend=backend), nothing, env, log)
    return next(item for item in found if item.name == name)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("cmake version 3.28.1\n", "3.28.1"),
        ("dcc version: 25.10.0-0\nclang version 17.0.0", "25.10.0-0"),
        ("HIP 6.3.26093", "6.3.26093"),
        ("no number", None),
    ],
)
def test_a_version_is_the_first_dotted_number_with_its_suffix(
    text: str, version: str | None
) -> None:
    assert machine.version_in(text) == version


@pytest.mark.parametrize(
    ("version", "enough"),
    [("3.18.4", True), ("3.9", False), ("25.10.0-0", True), (None, False)],
)
def test_versions_compare_as_numbers(version: str | None, enough: bool) -> None:
    assert (machine.numbers(version) >= (3, 18)) is enough


def test_the_wheel_is_taken_where_the_hosts_cmake_is_old(tmp_path: Path) -> None:
    old = program(tmp_path, "cmake", "echo cmake version 3.5.1")
    chosen = machine.host_or_wheel("cmake", machine.CMAKE_LEAST, env(tmp_path))
    assert chosen.path != old
    assert machine.numbers(chosen.version) >= machine.CMAKE_LEAST


def test_the_hosts_cmake_is_taken_where_it_is_new_enough(tmp_path: Path) -> None:
    new = program(tmp_path, "cmake", "echo cmake version 3.99.0")
    assert machine.host_or_wheel("cmake", machine.CMAKE_LEAST, env(tmp_path)).path == new


def test_no_compiler_fails_with_the_command_that_mends_it(tmp_path: Path) -> None:
    verdict = check_of("C++ compiler", env(tmp_path), "cpu")
    assert (verdict.status, verdict.found) == ("failed", "none")
    assert "apt-get install g++" in verdict.remedy


def test_a_compiler_without_cxx17_fails(tmp_path: Path) -> None:
    program(tmp_path, "g++", "case $1 in --version) echo g++ 4.8.5;; *) exit 1;; esac")
    verdict = check_of("C++ compiler", env(tmp_path), "cpu")
    assert verdict.status == "failed"
    assert "4.8.5" in verdict.found


def test_this_machines_compiler_makes_cxx17() -> None:
    assert check_of("C++ compiler", os.environ, "cpu").status == "ok"


def test_a_toolkit_without_a_version_file_is_unknown(tmp_path: Path) -> None:
    assert check_of("toolkit", os.environ, "hip", str(tmp_path)).status == "unknown"
    (tmp_path / ".dtk_version").write_text("DTK-26.04-DCC2602-0317\n")
    verdict = check_of("toolkit", os.environ, "hip", str(tmp_path))
    assert (verdict.status, verdict.found) == ("ok", "DTK-26.04-DCC2602-0317")


@pytest.mark.parametrize(
    ("backend", "compiler", "file", "text", "version"),
    [
        ("cuda", "nvcc", "version.json", '{"cuda": {"version": "12.8.1"}}', "12.8.1"),
        ("hip", "hipcc", ".info/version", "6.3.0-39", "6.3.0-39"),
    ],
)
def test_without_a_root_the_one_of_the_compiler_on_path_is_taken(
    tmp_path: Path, backend: str, compiler: str, file: str, text: str, version: str
) -> None:
    root, alternatives = tmp_path / "kit", tmp_path / "usr"
    for folder in (root / "bin", (root / file).parent, alternatives):
        folder.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    (alternatives / compiler).symlink_to(program(root / "bin", compiler, "echo release 1.2"))
    for path in (root / "bin", alternatives):
        kit = toolkit.load("", backend, env(path), tmp_path / "log")
        assert (kit.root, kit.version) == (root, version)
        assert check_of("toolkit", env(path), backend).status == "ok"
    assert toolkit.load("", "cpu", env(root / "bin"), tmp_path / "log") == toolkit.Toolkit()


def test_nvcc_of_a_wheel_says_the_version_that_no_file_says(tmp_path: Path) -> None:
    program(tmp_path, "nvcc", "echo Cuda compilation tools, release 13.0, V13.0.88")
    verdict = check_of("toolkit", env(tmp_path), "cuda")
    assert (verdict.status, verdict.found) == ("ok", "13.0")
    assert check_of("toolkit", env(tmp_path / "nowhere"), "cuda").status == "failed"


def test_too_little_disk_names_both_numbers(tmp_path: Path) -> None:
    verdict = next(checks.disk_checks(tmp_path / "not" / "there", 10**6))
    assert verdict.status == "failed"
    assert "1e+06 GiB" in verdict.expected
    assert "GiB" in verdict.found


def test_a_taken_port_fails() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        verdict = checks.port_check(port)
    assert verdict.status == "failed"
    assert str(port) in verdict.remedy


def test_a_folder_that_cannot_be_written_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**words: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checks.tempfile, "NamedTemporaryFile", refuse)
    verdict = list(checks.disk_checks(tmp_path, 1))[1]
    assert (verdict.status, verdict.found) == ("failed", "Permission denied")
    assert shown(tmp_path) in verdict.remedy


def test_opencv_that_does_not_load_names_the_headless_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cv2", None)
    verdict = checks.opencv_check()
    assert verdict.status == "failed"
    assert "opencv-python-headless" in verdict.remedy


def test_opencv_without_libgl_names_the_library_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import sys

    said = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "cv2.py").write_text(f"raise ImportError({said!r})\n")
    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert checks.opencv_check().found == said


def install(folder: Path, name: str, requires: str = "") -> None:
    info = folder / f"{name.replace('-', '_')}-4.10.0.84.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 4.10\n"
    (info / "METADATA").write_text(head + requires)


@pytest.mark.parametrize(
    ("wheels", "status"),
    [
        (["opencv-python"], "ok"),
        (["opencv_python_headless"], "ok"),
        (["opencv-python", "opencv-python-headless"], "warned"),
        (["opencv_contrib_python", "opencv_python"], "warned"),
        ([], "ok"),
    ],
)
def test_two_opencv_wheels_in_one_folder_warn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wheels: list[str], status: str
) -> None:
    import sys

    for name in wheels:
        install(tmp_path, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    verdict = list(checks.package_checks())[1]
    assert verdict.status == status
    assert len(verdict.found.split()) == max(1, len(wheels))


def test_packages_that_keyelab_requires_are_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import sys

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert next(checks.package_checks()).status == "unknown", "keyelab is not installed"
    asked = ("ast-grep-py>=0.39", "PyYAML", "av ; python_version > '3'", 'ruff; extra == "dev"')
    install(tmp_path, "keyelab", "".join(f"Requires-Dist: {line}\n" for line in asked))
    install(tmp_path, "pyyaml")
    assert next(checks.package_checks()).found == "missing: ast-grep-py; av"


def test_the_headless_opencv_wheel_is_as_good_as_the_required_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import sys

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    install(tmp_path, "keyelab", "Requires-Dist: opencv-python>=4.9\n")
    assert next(checks.package_checks()).found == "missing: opencv-python"
    install(tmp_path, "opencv-python-headless")
    assert next(checks.package_checks()).status == "ok"


def test_unreadable_system_files_are_unknown() -> None:
    assert machine.cpu_name("processor : 0\n") is None
    assert machine.cpu_name("model name\t: Hygon C86-4G (OPN:7470)\n") == "Hygon C86-4G (OPN:7470)"


def test_all_machine_checks_have_a_remedy_when_they_do_not_pass(tmp_path: Path) -> None:
    params = EnvCheck(min_memory_gib=1e6, min_disk_gib=1e6)
    for verdict in checks.machine_checks(params, tmp_path, {}):
        assert verdict.status == "ok" or verdict.remedy
