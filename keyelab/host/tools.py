"""The programs that the build needs: where they are and what version they say."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.facts import EnvFacts, ProbeFacts
from keyelab.files import located, shown
from keyelab.host.machine import Machine

PACKAGES = (
    "jupyterlab", "papermill", "nbclient", "ipywidgets", "jupytext", "requests",
    "pydantic", "ast-grep-py", "gguf", "av", "pandas", "matplotlib", "psutil", "click",
)  # fmt: skip
CXX_NAMES = ("c++", "g++", "clang++")
CMAKE_LEAST = (3, 18)
NINJA_LEAST = (1, 8)


@dataclass(frozen=True)
class Tool:
    """A program and its version; None where it could not be read."""

    name: str
    path: Path | None
    version: str | None


@dataclass(frozen=True)
class Toolchain:
    """Every tool that was looked for, and the accelerator's toolkit."""

    tools: dict[str, Tool]
    toolkit_root: Path | None = None
    toolkit_version: str | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    cxx17: bool | None = None


def look(env: Mapping[str, str], backend: str, toolkit_root: str) -> Toolchain:
    """Look for the tools of a backend on the PATH of `env`."""
    tools = {name: probe(name, env) for name in ("git", "make")}
    tools["cmake"] = host_or_wheel("cmake", CMAKE_LEAST, env)
    tools["ninja"] = host_or_wheel("ninja", NINJA_LEAST, env)
    compilers = [env["CXX"]] if env.get("CXX") else CXX_NAMES
    tools["C++ compiler"] = next(
        (tool for name in compilers if (tool := probe(name, env)).path),
        Tool(compilers[0], None, None),
    )
    root = located(toolkit_root) if toolkit_root else None
    if backend == "hip":
        for name in ("hipcc", "hipconfig"):
            tools[name] = probe(name, env)
    if backend == "cuda":
        tools["nvcc"] = probe("nvcc", env)
    return Toolchain(
        tools=tools,
        toolkit_root=root if root and root.is_dir() else None,
        toolkit_version=toolkit_version(root) if root else None,
        packages={name: package_version(name) for name in PACKAGES},
        cxx17=compiles_cxx17(tools["C++ compiler"].path, env),
    )


def probe(name: str, env: Mapping[str, str]) -> Tool:
    """Find a program and ask it for its version."""
    path = shell.find(name, env)
    if path is None:
        return Tool(name, None, None)
    try:
        said = shell.run([path, "--version"], env=env, timeout_s=20, check=False).output
    except (KeyelabError, OSError):
        said = ""
    return Tool(name, path, version_in(said))


def compiles_cxx17(compiler: Path | None, env: Mapping[str, str]) -> bool | None:
    """Whether the compiler makes a program with a C++17 library in it; None without one."""
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text("#include <optional>\nint main() { return *std::optional<int>(0); }\n")
        words = [str(compiler), "-std=c++17", str(source), "-o", str(source.with_suffix(""))]
        return shell.run(words, env=env, timeout_s=60, check=False).returncode == 0


def host_or_wheel(name: str, least: tuple[int, int], env: Mapping[str, str]) -> Tool:
    """The host's program when it is new enough, else the one of keyelab's Python environment."""
    host = probe(name, env)
    if host.version and at_least(host.version, least):
        return host
    wheel = probe(name, {**env, "PATH": str(Path(sys.prefix) / "bin")})
    return wheel if wheel.path else host


def at_least(version: str | None, least: tuple[int, int]) -> bool:
    """Whether the first two numbers of a version reach `least`; False when there is no version."""
    if version is None:
        return False
    numbers = [int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= least


def version_in(text: str) -> str | None:
    """The first dotted version in what a tool prints, suffix kept ('26.02.0-0')."""
    found = re.search(r"\b\d+(?:\.\d+)+(?:-[\w.]+)?", text)
    return found.group(0) if found else None


def toolkit_version(root: Path) -> str | None:
    """The toolkit's own word: DTK .dtk_version, ROCm .info/version, CUDA version.json."""
    for name in (".dtk_version", ".info/version", "version.json"):
        path = root / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if name == "version.json":
                return version_in(text)
            return text.strip() or None
    return None


def package_version(name: str) -> str | None:
    """Version of an installed Python package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def rows(found: Toolchain) -> list[dict[str, Any]]:
    """The tools as table rows."""
    return [
        {
            "tool": name,
            "version": tool.version,
            "path": shown(tool.path) if tool.path else "missing",
        }
        for name, tool in found.tools.items()
    ]


def facts(
    host: Machine, found: Toolchain, probe: ProbeFacts | None = None, **cards: Any
) -> EnvFacts:
    """What later phases need of this machine; `probe` is None where no card was probed.

    `cards` are the devices, the chosen ones and the environment of EnvFacts.
    """

    def path(name: str) -> str | None:
        tool = found.tools[name]
        return shown(tool.path) if tool.path else None

    return EnvFacts(
        os=host.os,
        kernel=host.kernel,
        cpu=host.cpu,
        cores=host.cores,
        memory_bytes=host.memory_bytes,
        python=host.python,
        cmake=path("cmake") or "cmake",
        ninja=path("ninja") or "ninja",
        cxx=path("C++ compiler"),
        toolkit_root=shown(found.toolkit_root) if found.toolkit_root else None,
        toolkit_version=found.toolkit_version,
        probe=probe,
        **cards,
    )
