"""The machine and its tools: read as they are, unknown where they are not readable."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from keyelab.files import shown
from keyelab.host import checks, machine, tools
from keyelab.params import EnvCheck


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def env(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder)}


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
    assert tools.version_in(text) == version


@pytest.mark.parametrize(
    ("version", "enough"),
    [("3.18.4", True), ("3.9", False), ("25.10.0-0", True), (None, False)],
)
def test_versions_compare_as_numbers(version: str | None, enough: bool) -> None:
    assert tools.at_least(version, (3, 18)) is enough


def test_the_wheel_is_taken_where_the_hosts_cmake_is_old(tmp_path: Path) -> None:
    old = program(tmp_path, "cmake", "echo cmake version 3.5.1")
    chosen = tools.host_or_wheel("cmake", tools.CMAKE_LEAST, env(tmp_path))
    assert chosen.path != old
    assert tools.at_least(chosen.version, tools.CMAKE_LEAST)


def test_the_hosts_cmake_is_taken_where_it_is_new_enough(tmp_path: Path) -> None:
    new = program(tmp_path, "cmake", "echo cmake version 3.99.0")
    assert tools.host_or_wheel("cmake", tools.CMAKE_LEAST, env(tmp_path)).path == new


def test_no_compiler_fails_with_the_command_that_mends_it(tmp_path: Path) -> None:
    found = tools.look(env(tmp_path), "cpu", "")
    verdict = next(item for item in checks.tool_checks(found, "cpu") if item.name == "C++ compiler")
    assert (verdict.status, verdict.found) == ("failed", "none")
    assert "apt-get install g++" in verdict.remedy


def test_a_compiler_without_cxx17_fails(tmp_path: Path) -> None:
    program(tmp_path, "g++", "case $1 in --version) echo g++ 4.8.5;; *) exit 1;; esac")
    found = tools.look(env(tmp_path), "cpu", "")
    verdict = next(item for item in checks.tool_checks(found, "cpu") if item.name == "C++ compiler")
    assert verdict.status == "failed"
    assert "4.8.5" in verdict.found


def test_this_machines_compiler_makes_cxx17() -> None:
    assert tools.look(dict(os.environ), "cpu", "").cxx17 is True


def test_a_toolkit_without_a_version_file_is_unknown(tmp_path: Path) -> None:
    found = tools.look(dict(os.environ), "hip", str(tmp_path))
    verdict = next(item for item in checks.tool_checks(found, "hip") if item.name == "toolkit")
    assert verdict.status == "unknown"
    (tmp_path / ".dtk_version").write_text("DTK-26.04-DCC2602-0317\n")
    assert tools.toolkit_version(tmp_path) == "DTK-26.04-DCC2602-0317"


def test_too_little_disk_names_both_numbers(tmp_path: Path) -> None:
    verdict = checks.disk_check(tmp_path / "not" / "there", 10**6)
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
    verdict = checks.write_check(tmp_path)
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


def test_unreadable_system_files_are_unknown() -> None:
    assert machine.cpu_name("processor : 0\n") is None
    assert machine.cpu_name("model name\t: Hygon C86-4G (OPN:7470)\n") == "Hygon C86-4G (OPN:7470)"
    assert machine.os_name("") is None
    assert machine.os_name('PRETTY_NAME="Ubuntu 22.04.4 LTS"\n') == "Ubuntu 22.04.4 LTS"


def test_all_machine_checks_have_a_remedy_when_they_do_not_pass(tmp_path: Path) -> None:
    params = EnvCheck(min_memory_gib=1e6, min_disk_gib=1e6)
    for verdict in checks.machine_checks(machine.read(), params, tmp_path):
        assert verdict.status == "ok" or verdict.remedy
