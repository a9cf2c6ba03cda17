"""What a build folder holds, looked at and not believed; reused while nothing in it changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.build.plan import BuildPlan
from keyelab.checks import Check, check, worst
from keyelab.errors import KeyelabError
from keyelab.facts import BuildFacts, FileFact
from keyelab.files import read_json, sha256_file, shown, write_json

RESULT = "result.json"
_AGAIN = "keyelab run --from build --set build.reuse=false"


@dataclass(frozen=True)
class Result:
    """What was seen: the reported version, backends, devices, missing libraries, GPU targets.

    None where it could not be read.
    """

    version: str | None
    backends: list[str]
    devices: list[str]
    unresolved: list[str] | None
    gpu_targets: list[str] | None
    binaries: dict[str, FileFact]


def look(plan: BuildPlan, env: Mapping[str, str]) -> Result:
    """Run the server's --version and --list-devices, and ldd, and read the files beside it."""
    server = plan.bin_dir / "llama-server"
    said = shell.run([server, "--version"], env=env, timeout_s=60, check=False)
    listed = shell.run([server, "--list-devices"], env=env, timeout_s=60, check=False)
    unresolved = None
    if shell.find("ldd", env):
        programs = [plan.bin_dir / name for name in plan.programs]
        linked = shell.run(["ldd", *programs], env=env, timeout_s=60, check=False)
        unresolved = sorted(set(re.findall(r"(\S+) => not found", linked.output)))
    return Result(
        version=parse_version(said.output) if said.returncode == 0 else None,
        backends=backends(plan.build_dir),
        devices=parse_devices(listed.output),
        unresolved=unresolved,
        gpu_targets=hip_targets(plan.build_dir),
        binaries=digests(plan.bin_dir),
    )


def checks(plan: BuildPlan, seen: Result) -> list[Check]:
    """Verdicts on a build: runs, is ours, loads, has its backend, holds the GPU target."""
    verdicts = [
        check(
            "binary reports our source",
            seen.version == plan.version,
            expected=plan.version,
            found=seen.version or "it does not run",
            remedy=_AGAIN,
        ),
        check(
            "libraries resolve",
            None if seen.unresolved is None else not seen.unresolved,
            expected="every linked library is found",
            found="there is no ldd"
            if seen.unresolved is None
            else "missing: " + " ".join(seen.unresolved or ["none"]),
            remedy="load the toolkit's environment (. /opt/dtk/env.sh), then: " + _AGAIN,
        ),
    ]
    backend = plan.params.backend
    if backend != "cpu":
        verdicts.append(
            check(
                f"{backend.upper()} backend",
                backend.upper() in seen.backends,
                expected=f"libggml-{backend} in the build",
                found=" ".join(seen.backends) or "no backend library",
                remedy=f"build.cmake_options must not turn it off; then: {_AGAIN}",
            )
        )
    if backend == "hip":
        asked = sorted(set(re.findall(r"gfx[0-9a-f]+", plan.params.gpu_targets)))
        verdicts.append(
            check(
                "GPU target in the code objects",
                None if seen.gpu_targets is None else seen.gpu_targets == asked,
                expected=" ".join(asked),
                found=" ".join(seen.gpu_targets or ["none read"]),
                remedy=_AGAIN,
            )
        )
    return verdicts


def facts(plan: BuildPlan, seen: Result, reused: bool) -> BuildFacts:
    """What later phases read of a build."""
    return BuildFacts(
        build_dir=shown(plan.build_dir),
        key=plan.key,
        reused=reused,
        backend=plan.params.backend,
        gpu_targets=plan.params.gpu_targets,
        build_type=plan.params.build_type,
        version=seen.version or "",
        backends=seen.backends,
        command=plan.command,
        binaries=seen.binaries,
    )


def finished(plan: BuildPlan) -> bool:
    """Whether the folder holds a whole build of this plan whose files are as they were kept."""
    try:
        kept = BuildFacts.model_validate(read_json(plan.build_dir / RESULT)["facts"])
    except (KeyelabError, KeyError, TypeError, ValueError):
        return False
    return kept.key == plan.key and kept.binaries == digests(plan.bin_dir)


def begin(plan: BuildPlan) -> None:
    """Make the folder, without the finished mark: from here it may hold half a build.

    CMake's cache goes too, for it is refused when tree or folder were moved.
    """
    plan.build_dir.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, "CMakeCache.txt"):
        (plan.build_dir / name).unlink(missing_ok=True)


def keep(plan: BuildPlan, facts: BuildFacts, verdicts: Iterable[Check]) -> None:
    """Mark a build as finished when no verdict on it failed; written last."""
    if worst(verdicts) != "failed":
        content = {"schema": 1, "inputs": plan.inputs, "facts": facts.model_dump()}
        write_json(plan.build_dir / RESULT, content)


def parse_version(text: str) -> str | None:
    """b<number>-<commit> of `llama-server --version`, in the form of b10019 or of b10502."""
    form = r"^version: (?:\S+ \(build )?(\d+)(?:, commit | \()(\S+)\)"
    found = re.search(form, text, re.MULTILINE)
    return f"b{found[1]}-{found[2]}" if found else None


def parse_devices(text: str) -> list[str]:
    """Accelerators that `llama-server --list-devices` prints."""
    return re.findall(r"^  (\S+: .+)$", text.partition("Available devices:")[2], re.MULTILINE)


def backends(build_dir: Path) -> list[str]:
    """Backends whose library, shared or static, is in the build: CPU, HIP, CUDA, …"""
    names = {path.stem.removeprefix("libggml-") for path in _libraries(build_dir, "*")}
    return sorted({name.split("-")[0].upper() for name in names} - {"BASE"})


def hip_targets(build_dir: Path) -> list[str] | None:
    """GPU architectures named in the code objects of the HIP library; None when none is named."""
    found: set[bytes] = set()
    for path in _libraries(build_dir, "hip"):
        found |= set(re.findall(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)", path.read_bytes()))
    return sorted(name.decode() for name in found) or None


def digests(bin_dir: Path) -> dict[str, FileFact]:
    """Every program and library of a build, by name; links to them are left out."""
    return {
        path.name: FileFact(
            path=shown(path), sha256=sha256_file(path), size_bytes=path.stat().st_size
        )
        for path in sorted(bin_dir.glob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _libraries(build_dir: Path, name: str) -> list[Path]:
    return [path for end in ("so", "a") for path in build_dir.rglob(f"libggml-{name}.{end}")]
