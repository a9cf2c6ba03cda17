"""This machine: its CPU, memory and system, and the programs on it that the build needs."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.facts import EnvFacts
from keyelab.files import shown
from keyelab.host import sysfs
from keyelab.host.reading import gib

CXX_NAMES = ("c++", "g++", "clang++")
CMAKE_LEAST = (3, 18)
NINJA_LEAST = (1, 8)


@dataclass(frozen=True)
class Tool:
    """A program and its version; None where it could not be read."""

    path: Path | None
    version: str | None


def read() -> dict[str, Any]:
    """What EnvFacts say of a machine, of this one."""
    import psutil

    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    return {
        "os": system,
        "kernel": platform.release(),
        "cpu": cpu_name(sysfs.text(Path("/proc/cpuinfo")) or ""),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(psutil.virtual_memory().total),
        "python": platform.python_version(),
    }


def cpu_name(cpuinfo: str) -> str | None:
    """The first model name in the text of /proc/cpuinfo."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else None


def host_rows(host: dict[str, Any]) -> list[dict[str, Any]]:
    """The machine as table rows."""
    said = {**host, "memory_bytes": gib(host["memory_bytes"])}
    return [{"fact": name.removesuffix("_bytes"), "value": value} for name, value in said.items()]


def look(env: Mapping[str, str], backend: str) -> dict[str, Tool]:
    """Look for the tools of a backend on the PATH of `env`."""
    more = {"hip": ("hipcc", "hipconfig"), "cuda": ("nvcc",)}.get(backend, ())
    tools = {name: probe(name, env) for name in ("git", "make", *more)}
    tools["cmake"] = host_or_wheel("cmake", CMAKE_LEAST, env)
    tools["ninja"] = host_or_wheel("ninja", NINJA_LEAST, env)
    names = [env["CXX"]] if env.get("CXX") else CXX_NAMES
    compiler = next((name for name in names if shell.find(name, env)), names[0])
    tools["C++ compiler"] = probe(compiler, env)
    return tools


def probe(name: str, env: Mapping[str, str]) -> Tool:
    """Find a program and ask it for its version."""
    path = shell.find(name, env)
    if path is None:
        return Tool(None, None)
    try:
        said = shell.run([path, "--version"], env=env, timeout_s=20, check=False).output
    except (KeyelabError, OSError):
        said = ""
    return Tool(path, version_in(said))


def compiles_cxx17(compiler: Path, env: Mapping[str, str]) -> bool:
    """Whether the compiler makes a program with a C++17 library in it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text("#include <optional>\nint main() { return *std::optional<int>(0); }\n")
        words = [str(compiler), "-std=c++17", str(source), "-o", str(source.with_suffix(""))]
        return shell.run(words, env=env, timeout_s=60, check=False).returncode == 0


def host_or_wheel(name: str, least: tuple[int, int], env: Mapping[str, str]) -> Tool:
    """The host's program when it is new enough, else the one of keyelab's Python environment."""
    host = probe(name, env)
    if numbers(host.version) >= least:
        return host
    wheel = probe(name, {**env, "PATH": str(Path(sys.prefix) / "bin")})
    return wheel if wheel.path else host


def numbers(version: str | None) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing: 6.3.31-V1.5.0a is (6, 3, 31)."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def version_in(text: str) -> str | None:
    """The first dotted version in what a tool prints, suffix kept ('26.02.0-0')."""
    found = re.search(r"\b\d+(?:\.\d+)+(?:-[\w.]+)?", text)
    return found.group(0) if found else None


def tool_rows(found: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """The tools as table rows."""
    shows = {name: shown(tool.path) if tool.path else "missing" for name, tool in found.items()}
    return [{"tool": name, "version": found[name].version, "path": shows[name]} for name in found]


def facts(found: Mapping[str, Tool], toolkit: Path | None, **more: Any) -> EnvFacts:
    """What later phases need to know; `more` is the rest of EnvFacts."""
    path = {name: shown(tool.path) if tool.path else None for name, tool in found.items()}
    return EnvFacts(
        cmake=path["cmake"] or "cmake",
        ninja=path["ninja"] or "ninja",
        cxx=path["C++ compiler"],
        toolkit_root=shown(toolkit) if toolkit else None,
        **more,
    )
