"""The compiler that a backend uses: its version, and the environment CMake needs to find it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.facts import EnvFacts
from keyelab.files import located


@dataclass(frozen=True)
class Toolchain:
    """`compiler` is the version text of every compiler used, `environment` what CMake needs."""

    compiler: str
    environment: dict[str, str] = field(default_factory=dict)


NOT_ASKED = Toolchain("not asked in a dry run")


def look(backend: str, host: EnvFacts, env: Mapping[str, str]) -> Toolchain:
    """Ask the compilers of a backend for their versions.

    For hip, HIPCXX and HIP_PATH come from `hipconfig -l` and `hipconfig -R`, as in llama.cpp's
    docs/build.md. Raises KeyelabError without a C++ compiler, ProgramMissing without another.
    """
    if host.cxx is None:
        raise KeyelabError(
            "expected a C++ compiler in the facts of env_check, found none",
            "apt-get install g++, then: keyelab run --from env_check",
        )
    environment = {"CXX": str(located(host.cxx))}
    compilers = [environment["CXX"]]
    if backend == "hip":
        clang = Path(_said(["hipconfig", "-l"], env)) / "clang"
        environment |= {"HIPCXX": str(clang), "HIP_PATH": _said(["hipconfig", "-R"], env)}
        compilers.append(str(clang))
    if backend == "cuda":
        compilers.append("nvcc")
    versions = [_said([compiler, "--version"], env) for compiler in compilers]
    return Toolchain("\n".join(versions), environment)


def _said(argv: Sequence[str], env: Mapping[str, str]) -> str:
    return shell.run(argv, env=env, timeout_s=30).output.strip()
