"""The build as a value: what CMake is told, which programs are made, and the key of it all."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab.build.toolchain import Toolchain
from keyelab.errors import KeyelabError, UsageError
from keyelab.facts import EnvFacts, HeaderFacts, SourceFacts
from keyelab.files import located, project_root, sha256_json, sha256_tree, shown
from keyelab.params import Build
from keyelab.shell import quoted

RECIPE_VERSION = 1
PROGRAMS = ("llama-server", "llama-bench", "llama-quantize")
KERNEL_GATE = "test-backend-ops"
# What a dry run plans for when no tree was made yet.
NO_SOURCE = SourceFacts(
    tree="work/sources/TREE",
    origin="",
    version="",
    recipe="",
    base_sha256="",
    tree_sha256="0" * 64,
    patches=[],
)
_FLAGS = "CMAKE_HIP_FLAGS"
_OWNED = ("CMAKE_BUILD_TYPE", "GPU_TARGETS", "CMAKE_HIP_ARCHITECTURES", "CMAKE_CUDA_ARCHITECTURES")


@dataclass(frozen=True)
class BuildPlan:
    """Everything that a build does, before it does it.

    `version` is the build_info that the binary will report, e.g. b10019-0123456789ab: the
    upstream tag's number (0 when the source has none) and the beginning of the tree digest.
    """

    params: Build
    source: SourceFacts
    build_dir: Path
    configure: tuple[str, ...]
    compile: tuple[str, ...]
    environment: dict[str, str]
    programs: tuple[str, ...]
    options: dict[str, str]
    version: str
    inputs: dict[str, object]
    key: str

    @property
    def bin_dir(self) -> Path:
        """Where the programs and their libraries appear."""
        return self.build_dir / "bin"

    @property
    def command(self) -> str:
        """Configure and compile as one line to paste at the root of the checkout."""
        setting = [f"{name}={value}" for name, value in self.environment.items()]
        line = f"{quoted(['env', *setting, *self.configure])} && {quoted(self.compile)}"
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
    overlay = located(headers.overlay) if headers.overlay and params.backend == "hip" else None
    if overlay and not overlay.is_dir():
        raise KeyelabError(
            f"expected the header overlay at {headers.overlay}, found none",
            "make it again: keyelab run --from header_fixes",
        )
    tag = re.fullmatch(r"(\d+)\.0\.0", source.version)
    number, commit = tag[1] if tag else "0", source.tree_sha256[:12]
    asked = source.cmake if params.backend == "hip" else {}
    options = _options(params, number, commit, overlay, asked)
    programs = PROGRAMS if params.backend == "cpu" else (*PROGRAMS, KERNEL_GATE)
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
    cmake, ninja = str(located(env.cmake)), str(located(env.ninja))
    return BuildPlan(
        params=params,
        source=source,
        build_dir=build_dir,
        configure=(
            *(cmake, "-S", str(tree), "-B", str(build_dir), "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
            *(f"-D{name}={value}" for name, value in options.items()),
        ),
        compile=(ninja, "-C", str(build_dir), "-j", str(params.jobs or env.cores), *programs),
        # ggml asks git for a commit: without a ceiling it would take this checkout's
        environment={"GIT_CEILING_DIRECTORIES": str(tree.parent), **toolchain.environment},
        programs=programs,
        options=options,
        version=f"b{number}-{commit}",
        inputs=inputs,
        key=key,
    )


def check_tree(plan: BuildPlan) -> None:
    """Prove that the tree is the one that was patched; raises KeyelabError when it is not."""
    tree, expected = located(plan.source.tree), plan.source.tree_sha256
    found = sha256_tree(tree) if tree.is_dir() else "no folder"
    if found != expected:
        raise KeyelabError(
            f"expected the tree that 04_source_patch left (digest {expected[:12]}) at "
            f"{shown(tree)}, found {found[:12]}",
            "make it again: keyelab run --from source_patch",
        )


def _options(
    params: Build, number: str, commit: str, overlay: Path | None, asked: Mapping[str, str]
) -> dict[str, str]:
    options = {
        "CMAKE_BUILD_TYPE": params.build_type,
        "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON",
        "LLAMA_BUILD_UI": "OFF",
        "LLAMA_OPENSSL": "OFF",
        "LLAMA_BUILD_EXAMPLES": "OFF",
        "LLAMA_BUILD_APP": "OFF",
        "LLAMA_BUILD_TESTS": "OFF" if params.backend == "cpu" else "ON",
        "LLAMA_BUILD_NUMBER": number,
        "LLAMA_BUILD_COMMIT": commit,
    }
    if params.backend != "cpu" and not params.gpu_targets:
        example = {"hip": "gfx928", "cuda": "90"}[params.backend]
        raise UsageError(
            f"build.gpu_targets is empty: a {params.backend} build without it compiles for "
            "architectures that this machine may not have",
            f"keyelab run --from build --set build.gpu_targets={example}",
        )
    if params.backend == "hip":
        options |= {"GGML_HIP": "ON", "GPU_TARGETS": params.gpu_targets}
    if params.backend == "cuda":
        options |= {"GGML_CUDA": "ON", "CMAKE_CUDA_ARCHITECTURES": params.gpu_targets}
    flags = [f"-isystem {shlex.quote(str(overlay))}"] if overlay else []
    for name in params.cmake_options.keys() & set(_OWNED):
        raise UsageError(
            f"cmake_options sets {name}, which build.build_type or build.gpu_targets sets",
            f"take {name} out and set that parameter to {params.cmake_options[name]!r}",
        )
    # a parameter wins over what the recipe asks for; compiler flags add up
    options |= {**asked, **params.cmake_options}
    flags += [given[_FLAGS] for given in (asked, params.cmake_options) if given.get(_FLAGS)]
    if flags:
        options[_FLAGS] = " ".join(flags)
    return options
