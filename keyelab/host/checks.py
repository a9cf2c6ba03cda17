"""Checks of every machine: memory, disk, port, OpenCV, compilers and build tools."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path

from keyelab.checks import Check
from keyelab.files import shown
from keyelab.host.card import Card
from keyelab.host.machine import Machine, gib
from keyelab.host.tools import CMAKE_LEAST, Toolchain, at_least
from keyelab.host.verdict import verdict
from keyelab.params import EnvCheck


def machine_checks(host: Machine, params: EnvCheck, workdir: Path) -> list[Check]:
    """Memory, disk, write access, port and OpenCV."""
    least = params.min_memory_gib
    enough = host.available_bytes >= least * 2**30
    return [
        verdict("memory", enough, gib(host.available_bytes), least=least),
        disk_check(workdir, params.min_disk_gib),
        write_check(workdir),
        port_check(params.port),
        opencv_check(),
    ]


def tool_checks(found: Toolchain, backend: str) -> list[Check]:
    """Compilers, build tools, the toolkit of the backend, Python packages."""
    cxx, cmake, ninja = (found.tools[name] for name in ("C++ compiler", "cmake", "ninja"))
    cxx_text = f"{shown(cxx.path)} {cxx.version or 'of unknown version'}" if cxx.path else "none"
    new = None if cmake.path and not cmake.version else at_least(cmake.version, CMAKE_LEAST)
    missing = " ".join(name for name, version in found.packages.items() if version is None)
    packages = f"missing: {missing}" if missing else "all there"
    results = [
        verdict("C++ compiler", bool(found.cxx17), cxx_text),
        verdict("CMake", new, cmake.version or "none"),
        verdict("ninja", ninja.path is not None, ninja.version or "none"),
        verdict("Python packages", not missing, packages, count=len(found.packages)),
    ]
    if backend == "cpu":
        return results
    name = {"hip": "hipcc", "cuda": "nvcc"}[backend]
    tool, root, version = found.tools[name], found.toolkit_root, found.toolkit_version
    text = tool.version or ("of unknown version" if tool.path else "none")
    known = None if root and not version else bool(root)
    return [
        *results,
        verdict(name, tool.path is not None, text),
        verdict("toolkit", known, version or ("no version file" if root else "no root")),
    ]


def card_check(card: Card) -> Check:
    """The probe has got an answer to everything it tried on the card."""
    reasons = {card.reasons[name] for name in card.unknown}
    text = "; ".join(sorted(reasons)) or "answered"
    return verdict("probe of the card", None if card.unknown else True, text)


def disk_check(workdir: Path, least_gib: float) -> Check:
    """Free space where sources, builds and models go."""
    free = shutil.disk_usage(_existing(workdir)).free
    enough = free >= least_gib * 2**30
    return verdict("disk", enough, gib(free), least=least_gib, place=shown(workdir))


def write_check(workdir: Path) -> Check:
    """A file can be made in the work folder."""
    above = _existing(workdir)
    try:
        with tempfile.NamedTemporaryFile(dir=above):
            found = "yes"
    except OSError as error:
        found = str(error.strerror)
    fill = {"place": shown(workdir), "above": shown(above)}
    return verdict("write access", found == "yes", found, **fill)


def port_check(port: int) -> Check:
    """The server's TCP port is free on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            found = f"{probe.getsockname()[1]} is free"
        except OSError as error:
            found = f"{port}: {error.strerror}"
    wanted = f"TCP port {port} free" if port else "a free TCP port"
    return verdict("port", found.endswith("is free"), found, wanted=wanted, port=port)


def opencv_check() -> Check:
    """`import cv2` works: the usual wheel needs libGL, which servers often lack."""
    try:
        import cv2
    except ImportError as error:
        return verdict("OpenCV", False, str(error))
    return verdict("OpenCV", True, str(cv2.__version__))


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
