"""The build as a value: what CMake is told, which programs are made, and the key of it all."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyelab.build.toolchain import Toolchain
from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import EnvFacts, HeaderFacts, SourceFacts
from keyelab.files import located, project_root, sha256_json, sha256_tree
from keyelab.params import Build
from keyelab.shell import quoted

RECIPE_VERSION = 1
PROGRAMS = ("llama-server", "llama-bench", "llama-quantize")
KERNEL_GATE = "test-backend-ops"
GPU_LIBRARY = {"hip": "HIP", "cuda": "CUDA"}
# What a dry run plans for when no tree was made yet.
NO_SOURCE = SourceFacts(
    tree="work/sources/TREE",
    origin="",
    version="",
    recipe="",
    base_sha256="0" * 64,
    tree_sha256="0" * 64,
    patches=[],
)
_TAG = re.compile(r"(\d+)\.0\.0")


@dataclass(frozen=True)
class BuildPlan:
    """Everything that a build does, before it does it.

    `number` and `commit` are what the binary will report: the upstream tag's number (0 when the
    source has none) and the first 12 digits of the tree digest.
    """

    source: Path
    build_dir: Path
    configure: tuple[str, ...]
    compile: tuple[str, ...]
    environment: dict[str, str]
    programs: tuple[str, ...]
    options: dict[str, str]
    asked_options: tuple[str, ...]
    backend: str
    gpu_targets: str
    build_type: str
    number: int
    commit: str
    key: str
    inputs: dict[str, object] = field(repr=False)

    @property
    def bin_dir(self) -> Path:
        """Where the programs and their libraries appear."""
        return self.build_dir / "bin"

    @property
    def version(self) -> str:
        """The build_info that llama-server reports in /props, e.g. b10019-0123456789ab."""
        return f"b{self.number}-{self.commit}"

    @property
    def command(self) -> str:
        """Configure and compile as one line to paste at the root of the checkout."""
        setting = [f"{name}={value}" for name, value in self.environment.items()]
        words = ["env", *setting, *self.configure] if setting else list(self.configure)
        line = f"{quoted(words)} && {quoted(self.compile)}"
        return line.replace(f"{project_root()}/", "")


def make(
    source: SourceFacts,
    env: EnvFacts,
    headers: HeaderFacts,
    params: Build,
    toolchain: Toolchain,
) -> BuildPlan:
    """Plan the build of a tree; pure but for the digest of the header overlay.

    Raises UsageError when a GPU backend has no targets or cmake_options sets what a parameter
    sets, KeyelabError when the overlay is gone.
    """
    tree = located(source.tree)
    overlay = _overlay(headers) if params.backend == "hip" else None
    number, commit = reported(source)
    programs = PROGRAMS if params.backend == "cpu" else (*PROGRAMS, KERNEL_GATE)
    options = _options(params, number, commit, overlay)
    inputs: dict[str, object] = {
        "tree": source.tree_sha256,
        "options": {k: v.replace(f"{project_root()}/", "") for k, v in options.items()},
        "overlay": sha256_tree(overlay) if overlay else "",
        "compiler": toolchain.compiler,
        "toolkit": env.toolkit_version,
        "machine": [platform.machine(), env.cpu],
        "programs": programs,
        "recipe": RECIPE_VERSION,
    }
    key = sha256_json(inputs)
    build_dir = located(params.workdir) / "builds" / key[:16]
    jobs = params.jobs or env.cores
    configure = (
        *(str(_program(env.cmake)), "-S", str(tree), "-B", str(build_dir), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={_program(env.ninja)}",
        *(f"-D{name}={value}" for name, value in options.items()),
    )
    compile_ = (str(_program(env.ninja)), "-C", str(build_dir), "-j", str(jobs), *programs)
    return BuildPlan(
        source=tree,
        build_dir=build_dir,
        configure=configure,
        compile=compile_,
        # ggml asks git for a commit: without a ceiling it would take this checkout's
        environment={"GIT_CEILING_DIRECTORIES": str(tree.parent), **toolchain.environment},
        programs=programs,
        options=options,
        asked_options=tuple(params.cmake_options),
        backend=params.backend,
        gpu_targets=params.gpu_targets,
        build_type=params.build_type,
        number=number,
        commit=commit,
        key=key,
        inputs=inputs,
    )


def check_tree(plan: BuildPlan, expected_sha256: str) -> None:
    """Prove that the tree is the one that was patched; raises KeyelabError when it is not."""
    if not (plan.source / "CMakeLists.txt").is_file():
        raise KeyelabError(
            f"expected a llama.cpp tree at {plan.source}, found no CMakeLists.txt there",
            "make it again: keyelab run --from source_patch",
        )
    found = sha256_tree(plan.source)
    if found != expected_sha256:
        raise KeyelabError(
            f"expected the tree that 04_source_patch left (digest {expected_sha256[:12]}), found "
            f"{found[:12]} at {plan.source}: it was edited since",
            "make it again: keyelab run --from source_patch",
        )


def reported(source: SourceFacts) -> tuple[int, str]:
    """Build number and commit that the binary shall report for a tree."""
    tag = _TAG.fullmatch(source.version)
    return (int(tag.group(1)) if tag else 0), source.tree_sha256[:12]


def _overlay(headers: HeaderFacts) -> Path | None:
    if not headers.overlay:
        return None
    folder = located(headers.overlay)
    if not folder.is_dir():
        raise KeyelabError(
            f"expected the header overlay at {headers.overlay}, found none",
            "make it again: keyelab run --from header_fixes",
        )
    return folder


def _options(params: Build, number: int, commit: str, overlay: Path | None) -> dict[str, str]:
    options = {
        "CMAKE_BUILD_TYPE": params.build_type,
        "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON",
        "LLAMA_BUILD_UI": "OFF",
        "LLAMA_OPENSSL": "OFF",
        "LLAMA_BUILD_EXAMPLES": "OFF",
        "LLAMA_BUILD_APP": "OFF",
        "LLAMA_BUILD_TESTS": "OFF" if params.backend == "cpu" else "ON",
        "LLAMA_BUILD_NUMBER": str(number),
        "LLAMA_BUILD_COMMIT": commit,
        **_backend_options(params, overlay),
    }
    owned = {"CMAKE_BUILD_TYPE": "build_type", "GPU_TARGETS": "gpu_targets"} | {
        "CMAKE_CUDA_ARCHITECTURES": "gpu_targets",
        "CMAKE_HIP_ARCHITECTURES": "gpu_targets",
        "AMDGPU_TARGETS": "gpu_targets",
    }
    for name, value in params.cmake_options.items():
        if name in owned:
            raise UsageError(
                f"cmake_options sets {name}, which the parameter build.{owned[name]} sets",
                f"set build.{owned[name]} to {value!r} and leave {name} out",
            )
        if name == "CMAKE_HIP_FLAGS" and name in options:
            value = f"{options[name]} {value}"
        options[name] = value
    return options


def _backend_options(params: Build, overlay: Path | None) -> dict[str, str]:
    if params.backend == "cpu":
        return {}
    if not params.gpu_targets:
        example = {"hip": "gfx928", "cuda": "90"}[params.backend]
        raise UsageError(
            f"build.gpu_targets is empty: a {params.backend} build without it compiles for "
            "architectures that this machine may not have",
            f"keyelab run --from build --set build.gpu_targets={example}",
        )
    if params.backend == "cuda":
        return {"GGML_CUDA": "ON", "CMAKE_CUDA_ARCHITECTURES": params.gpu_targets}
    options = {"GGML_HIP": "ON", "GPU_TARGETS": params.gpu_targets}
    if overlay:
        options["CMAKE_HIP_FLAGS"] = f"-isystem {shlex.quote(str(overlay))}"
    return options


def _program(named: str) -> Path | str:
    return located(named) if "/" in named else named


def planned_options(plan: BuildPlan) -> list[Mapping[str, str]]:
    """The cache entries as table rows, those of cmake_options marked."""
    return [
        {
            "option": name,
            "value": value,
            "from": "cmake_options" if name in plan.asked_options else "keyelab",
        }
        for name, value in plan.options.items()
    ]
