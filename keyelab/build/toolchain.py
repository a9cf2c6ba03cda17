"""The compiler that a backend uses: its version, and the environment CMake needs to find it."""

from __future__ import annotations

from collections.abc import Mapping
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


def look(backend: str, env_facts: EnvFacts, env: Mapping[str, str]) -> Toolchain:
    """Ask the compilers of a backend for their versions.

    For hip, HIPCXX and HIP_PATH come from `hipconfig -l` and `hipconfig -R`, as in llama.cpp's
    docs/build.md. Raises ProgramMissing, CommandFailed, or KeyelabError when there is no C++
    compiler.
    """
    if env_facts.cxx is None:
        raise KeyelabError(
            "expected a C++ compiler in the facts of env_check, found none",
            "apt-get install g++, then: keyelab run --from env_check",
        )
    cxx = located(env_facts.cxx) if "/" in env_facts.cxx else env_facts.cxx
    versions = [_version(cxx, env)]
    environment = {"CXX": str(cxx)}
    if backend == "hip":
        hip = hip_environment(env)
        versions.append(_version(hip["HIPCXX"], env))
        environment |= hip
    if backend == "cuda":
        versions.append(_version("nvcc", env))
    return Toolchain("\n".join(versions), environment)


def hip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """HIPCXX and HIP_PATH of the HIP toolkit on the PATH of `env`.

    Raises ProgramMissing without hipconfig, KeyelabError when it names a compiler that is not
    there.
    """
    folder = shell.run(["hipconfig", "-l"], env=env, timeout_s=30).output.strip()
    root = shell.run(["hipconfig", "-R"], env=env, timeout_s=30).output.strip()
    compiler = Path(folder) / "clang"
    if not compiler.exists():
        raise KeyelabError(
            f"expected the HIP compiler at {compiler} (hipconfig -l), found no such file",
            "load the toolkit's environment and try again: . /opt/dtk/env.sh && hipconfig -l",
        )
    return {"HIPCXX": str(compiler), "HIP_PATH": root}


def _version(compiler: Path | str, env: Mapping[str, str]) -> str:
    return shell.run([compiler, "--version"], env=env, timeout_s=30).output.strip()
