"""What a build folder holds, looked at and not believed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.build.plan import GPU_LIBRARY, BuildPlan
from keyelab.checks import Check, check
from keyelab.errors import ProgramMissing
from keyelab.facts import FileFact
from keyelab.files import sha256_file, shown

_ARCH = re.compile(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)")
_AGAIN = "keyelab run --from build --set build.reuse=false"


@dataclass(frozen=True)
class Result:
    """What was seen: the reported version, backends, devices, missing libraries, GPU targets.

    None where it could not be read.
    """

    version: str | None
    backends: list[str]
    devices: list[str] | None
    unresolved: list[str] | None
    gpu_targets: list[str] | None
    binaries: dict[str, FileFact]


def look(plan: BuildPlan, env: Mapping[str, str]) -> Result:
    """Run the server's --version and --list-devices and read the files beside it."""
    server = plan.bin_dir / "llama-server"
    said = shell.run([server, "--version"], env=env, timeout_s=60, check=False)
    listed = shell.run([server, "--list-devices"], env=env, timeout_s=60, check=False)
    return Result(
        version=parse_version(said.output) if said.returncode == 0 else None,
        backends=backends(plan.build_dir),
        devices=parse_devices(listed.output) if listed.returncode == 0 else None,
        unresolved=unresolved(plan, env),
        gpu_targets=hip_targets(plan.build_dir),
        binaries=digests(plan.bin_dir),
    )


def checks(plan: BuildPlan, seen: Result) -> list[Check]:
    """Verdicts on a build: runs, is ours, has its backend, loads, holds the GPU target."""
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
            found="ldd could not tell"
            if seen.unresolved is None
            else "; ".join(seen.unresolved) or "all found",
            remedy="load the toolkit's environment (. /opt/dtk/env.sh), then: " + _AGAIN,
        ),
    ]
    if plan.backend not in GPU_LIBRARY:
        return verdicts
    wanted = GPU_LIBRARY[plan.backend]
    verdicts.append(
        check(
            f"{wanted} backend",
            wanted in seen.backends,
            expected=f"libggml-{plan.backend} in the build",
            found=" ".join(seen.backends) or "no backend library",
            remedy=f"build.cmake_options must not turn GGML_{wanted} off; then: {_AGAIN}",
        )
    )
    verdicts.append(
        check(
            "devices",
            None if seen.devices is None else bool(seen.devices),
            expected="at least one accelerator listed",
            found="it does not run" if seen.devices is None else "; ".join(seen.devices) or "none",
            remedy="see which cards this user can open: rocminfo, or nvidia-smi",
            warn=True,
        )
    )
    if plan.backend == "hip":
        asked = sorted(set(re.findall(r"gfx[0-9a-f]+", plan.gpu_targets)))
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


def rows(seen: Result) -> list[dict[str, str]]:
    """Programs and libraries as table rows; sizes in MiB."""
    return [
        {"file": name, "MiB": f"{fact.size_bytes / 2**20:.1f}", "sha256": fact.sha256[:12]}
        for name, fact in seen.binaries.items()
    ]


def parse_version(text: str) -> str | None:
    """b<number>-<commit> from what `llama-server --version` prints."""
    found = re.search(r"^version: (\d+) \((\S+)\)", text, re.MULTILINE)
    return f"b{found.group(1)}-{found.group(2)}" if found else None


def parse_devices(text: str) -> list[str] | None:
    """Accelerators that `llama-server --list-devices` prints; None when it lists nothing at all."""
    if "Available devices:" not in text:
        return None
    return re.findall(r"^  (\S+: .+)$", text.split("Available devices:", 1)[1], re.MULTILINE)


def backends(build_dir: Path) -> list[str]:
    """Backends whose library, shared or static, is in the build: CPU, HIP, CUDA, …"""
    names = set()
    for pattern in ("libggml-*.so", "libggml-*.a"):
        for path in build_dir.rglob(pattern):
            names.add(path.stem.removeprefix("libggml-").split("-")[0].upper())
    return sorted(names - {"BASE"})


def hip_targets(build_dir: Path) -> list[str] | None:
    """GPU architectures named in the code objects of the HIP library; None when none is named."""
    libraries = [*build_dir.rglob("libggml-hip.so"), *build_dir.rglob("libggml-hip.a")]
    found: set[str] = set()
    for path in libraries:
        found |= {name.decode() for name in _ARCH.findall(path.read_bytes())}
    return sorted(found) or None


def unresolved(plan: BuildPlan, env: Mapping[str, str]) -> list[str] | None:
    """'program: library' for each linked library that the loader does not find."""
    missing: list[str] = []
    for name in plan.programs:
        try:
            said = shell.run(["ldd", plan.bin_dir / name], env=env, timeout_s=60, check=False)
        except ProgramMissing:
            return None
        libraries = re.findall(r"^\s*(\S+) => not found", said.output, re.MULTILINE)
        missing += [f"{name}: {library}" for library in libraries]
    return missing


def digests(bin_dir: Path) -> dict[str, FileFact]:
    """Every program and library of a build, by name; links to them are left out."""
    return {
        path.name: FileFact(
            path=shown(path), sha256=sha256_file(path), size_bytes=path.stat().st_size
        )
        for path in sorted(bin_dir.iterdir())
        if path.is_file() and not path.is_symlink()
    }
