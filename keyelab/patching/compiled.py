"""What a HIP compiler makes of the kernels, held against what the host starts.

Compiles for the device only, to assembly. Nothing is linked or run, so no card is needed.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from keyelab.checks import Check, check
from keyelab.errors import CommandFailed, KeyelabError
from keyelab.files import located
from keyelab.patching.assembly import Kernel, parse, rows
from keyelab.shell import run

if TYPE_CHECKING:
    from keyelab.patching.launches import Launch

KERNELS = "ggml/src/ggml-cuda"
# matrix products and attention, of which each recipe touches some; one instance of many
SAMPLE = (
    "mmvq.cu",
    "template-instances/mmq-instance-q4_k.cu",
    "template-instances/fattn-tile-instance-dkq128-dv128.cu",
    "norm.cu",
    "softmax.cu",
)
# as ggml/src/ggml-hip/CMakeLists.txt compiles with its default options
OPTIONS = (
    *("-x", "hip", "--cuda-device-only", "-S", "-O3", "-std=c++17", "-D__HIP_PLATFORM_AMD__"),
    *("-DNDEBUG", "-DGGML_USE_HIP", "-DGGML_USE_CUDA", "-DGGML_HIP_GRAPHS", "-DGGML_HIP_NO_VMM"),
    *("-funsafe-math-optimizations", "-ffast-math", "-fno-finite-math-only"),
)
# its share of the work follows from the size that it is compiled for
_SIZED = "mul_mat_vec_q"
_DOTTED = {_SIZED, "mul_mat_vec_q_moe", "mul_mat_q", "flash_attn_tile"}


def compiled_checks(
    tree: Path,
    compiler: str,
    arch: str,
    flags: Sequence[str] = (),
    files: Sequence[str] = SAMPLE,
    starts: Mapping[str, int] | None = None,
    timeout_s: float = 600,
    env: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, str]], list[Check]]:
    """Compile `files` of ggml-cuda for `arch`: a table of kernels, and checks.

    `flags` are what the build gives its HIP compiler, include folders too. `starts` says how many
    threads the host starts, at most; a kernel whose block depends on its template arguments is
    named with them, as in `mul_mat_vec_q<*,1,*>` for one column. Without a compiler, or past
    `timeout_s` a file, the answer is unknown.
    """
    kernels: list[Kernel] = []
    table: list[dict[str, str]] = []
    checks = []
    folders = (tree / KERNELS, tree / "ggml/src", tree / "ggml/include")
    places = [word for folder in folders for word in ("-I", folder)]
    argv = [compiler, *OPTIONS, f"--offload-arch={arch}", *flags, *places]
    for file in files:
        found: list[Kernel] = []
        ok: bool | None = True
        try:
            found = parse(_assembly([*argv, tree / KERNELS / file], timeout_s, env))
            said = f"{len(found)} kernels"
        except KeyelabError as error:  # no compiler and no time are unknown
            failed = isinstance(error, CommandFailed) and error.returncode is not None
            ok, said = False if failed else None, error.message
        kernels += found
        table += rows(file, found)
        checks.append(
            check(
                f"{Path(file).name} compiles for {arch}",
                ok,
                expected="assembly",
                found=said,
                remedy="a rule or the toolkit is at fault: compare with the tree before the patch",
            )
        )
    return table, [*checks, *_bounds(kernels, starts or {}), *_dots(kernels, arch)]


def started(launches: Iterable[Launch]) -> dict[str, int]:
    """The most threads that the host starts of each kernel that the compiler bounds by itself.

    A kernel with an explicit bound is judged with its template arguments in the launch audit;
    mul_mat_vec_q is here all the same.
    """
    found: dict[str, int] = {}
    for launch in launches:
        name = launch.kernel.split("<")[0]
        if launch.threads and (not launch.bound or name == _SIZED):
            found[name] = max(found.get(name, 0), launch.threads)
    return found


def build_flags(cmake: Mapping[str, str], definitions: Iterable[str], overlay: str) -> list[str]:
    """What a build with these CMake entries gives its HIP compiler, the header overlay first."""
    folder = ["-isystem", str(located(overlay))] if overlay else []
    named = [f"-D{definition}" for definition in definitions]
    return [*folder, *shlex.split(cmake.get("CMAKE_HIP_FLAGS", "")), *named]


def _assembly(argv: list[str | Path], timeout_s: float, env: Mapping[str, str] | None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernels.s"
        run([*argv, "-o", made], timeout_s=timeout_s, env=env)
        return made.read_text(encoding="utf-8", errors="replace")


def _bounds(kernels: Sequence[Kernel], starts: Mapping[str, int]) -> Iterator[Check]:
    for name, threads in starts.items():
        meant = [one for one in kernels if name == one.base or fnmatchcase(one.name, name)]
        if meant:
            exact = meant[0].base == _SIZED
            bound = (max if exact else min)(one.bound_threads for one in meant)
            yield check(
                f"{name} is compiled for the threads it is started with",
                bound == threads if exact else bound >= threads,
                expected=f"a bound of {'' if exact else 'at least '}{threads}",
                found=f"{bound}",
                remedy="host and device disagree about this card: choose another recipe",
            )


def _dots(kernels: Sequence[Kernel], arch: str) -> Iterator[Check]:
    users = [one for one in kernels if one.base in _DOTTED]
    without = sorted({one.base for one in users} - {one.base for one in users if one.dots})
    if users:
        most = max(users, key=lambda one: one.spilled_vgprs)
        count = f"none in {', '.join(without)}" if without else f"{sum(x.dots for x in users):,}"
        yield check(
            f"quantized products and tile attention use dot instructions on {arch}",
            not without,
            expected="v_dot instructions in each kernel",
            found=f"{count}; {most.base} spills up to {most.spilled_vgprs:,} VGPRs",
            remedy="right but slow: where keyelab probe finds dot instructions, take gcn-dot",
            warn=True,
        )
