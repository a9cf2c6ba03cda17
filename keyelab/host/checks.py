"""Checks of the host: each says what is expected, what was found and how to mend it."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.files import shown
from keyelab.host.machine import Machine, gib
from keyelab.host.tools import CMAKE_LEAST, Toolchain, at_least
from keyelab.params import EnvCheck


def machine_checks(host: Machine, params: EnvCheck, workdir: Path) -> list[Check]:
    """CPU, memory, disk, write access, port and OpenCV."""
    return [
        check(
            "memory",
            host.available_bytes >= params.min_memory_gib * 2**30,
            expected=f"at least {params.min_memory_gib:g} GiB available",
            found=gib(host.available_bytes),
            remedy="end other programs, or lower env_check.min_memory_gib: free -h",
        ),
        disk_check(workdir, params.min_disk_gib),
        write_check(workdir),
        port_check(params.port),
        opencv_check(),
    ]


def tool_checks(found: Toolchain, backend: str) -> list[Check]:
    """Compilers, build tools, the toolkit of the backend, Python packages."""
    cxx = found.tools["C++ compiler"]
    cmake = found.tools["cmake"]
    results = [
        check(
            "C++ compiler",
            bool(found.cxx17),
            expected="a compiler that makes a C++17 program",
            found=f"{shown(cxx.path)} {cxx.version or 'of unknown version'}"
            if cxx.path
            else "none",
            remedy="apt-get install g++, or set CXX to the compiler",
        ),
        check(
            "CMake",
            None if cmake.path and not cmake.version else at_least(cmake.version, CMAKE_LEAST),
            expected="CMake 3.18 or newer",
            found=cmake.version or "none",
            remedy="pip install cmake",
        ),
        check(
            "ninja",
            found.tools["ninja"].path is not None,
            expected="ninja on PATH",
            found=found.tools["ninja"].version or "none",
            remedy="pip install ninja",
        ),
    ]
    missing = [name for name, version in found.packages.items() if version is None]
    results.append(
        check(
            "Python packages",
            not missing,
            expected=f"{len(found.packages)} packages",
            found="missing: " + " ".join(missing) if missing else "all there",
            remedy="pip install -e .",
        )
    )
    if backend != "cpu":
        compiler = {"hip": "hipcc", "cuda": "nvcc"}[backend]
        tool = found.tools[compiler]
        results.append(
            check(
                compiler,
                tool.path is not None,
                expected=f"{compiler} on PATH",
                found=tool.version or ("of unknown version" if tool.path else "none"),
                remedy=". /opt/dtk/env.sh, or set tools_dir to its bin folder",
            )
        )
        results.append(
            check(
                "toolkit",
                None
                if found.toolkit_root and not found.toolkit_version
                else bool(found.toolkit_root),
                expected="a toolkit root with its version file",
                found=found.toolkit_version or "no version file"
                if found.toolkit_root
                else "no root",
                remedy="set env_check.toolkit_root, for example /opt/dtk",
            )
        )
    return results


def disk_check(workdir: Path, least_gib: float) -> Check:
    """Free space where sources, builds and models go."""
    place = next(folder for folder in (workdir, *workdir.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    return check(
        "disk",
        free >= least_gib * 2**30,
        expected=f"at least {least_gib:g} GiB free for {shown(workdir)}",
        found=gib(free),
        remedy="free space (du -xh --max-depth=1), or set workdir to a larger disk",
    )


def write_check(workdir: Path) -> Check:
    """A file can be made in the work folder."""
    place = next(folder for folder in (workdir, *workdir.parents) if folder.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            found = "yes"
    except OSError as error:
        found = str(error.strerror)
    return check(
        "write access",
        found == "yes",
        expected=f"files can be made in {shown(workdir)}",
        found=found,
        remedy=f"chown or chmod {shown(place)}, or set workdir to your own folder",
    )


def port_check(port: int) -> Check:
    """The server's TCP port is free on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            found = f"{probe.getsockname()[1]} is free"
        except OSError as error:
            found = f"{port}: {error.strerror}"
    return check(
        "port",
        found.endswith("is free"),
        expected="a free TCP port" if port == 0 else f"TCP port {port} free",
        found=found,
        remedy=f"keyelab stop, or see who holds it: ss -ltnp 'sport = :{port}'",
    )


def opencv_check() -> Check:
    """`import cv2` works: the usual wheel needs libGL, which servers often lack."""
    try:
        import cv2

        found = str(cv2.__version__)
        good = True
    except ImportError as error:
        found, good = str(error), False
    return check(
        "OpenCV",
        good,
        expected="import cv2 works",
        found=found,
        remedy="pip uninstall -y opencv-python && pip install opencv-python-headless",
    )
