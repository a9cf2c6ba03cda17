"""Running a plan: configure, compile, and the first cause when one of them fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keyelab import shell
from keyelab.build import cause as causes
from keyelab.build import progress
from keyelab.build.plan import BuildPlan
from keyelab.errors import KeyelabError
from keyelab.files import shown

OnProgress = Callable[[float | None, str], None]
# Old names that upstream's CMake ignores with a warning only.
_RENAMED = {
    "LLAMA_HIPBLAS": "GGML_HIP",
    "GGML_HIPBLAS": "GGML_HIP",
    "LLAMA_CUBLAS": "GGML_CUDA",
    "LLAMA_CUDA": "GGML_CUDA",
    "AMDGPU_TARGETS": "GPU_TARGETS",
    "LLAMA_CURL": "LLAMA_OPENSSL",
}


def build(
    plan: BuildPlan,
    env: Mapping[str, str],
    log: Path,
    on_progress: OnProgress,
    pass_fds: Sequence[int] = (),
) -> None:
    """Configure and compile; everything printed goes to `log`.

    Raises KeyelabError with the first cause, also when an option of cmake_options was not used
    or a program is missing although the exit status is 0.
    """
    environment = {**env, **plan.environment}
    _drop_other_tree(plan)
    plan.build_dir.mkdir(parents=True, exist_ok=True)
    on_progress(0.0, "configuring")
    configured = _run(plan.configure, "configure", environment, log, None, pass_fds)
    check_options_used(plan, causes.unused_options(configured))

    def compiling(line: str) -> None:
        if step := progress.parse(line):
            on_progress(step.fraction, step.text)

    said = _run(plan.compile, "compile", environment, log, compiling, pass_fds)
    missing = [name for name in plan.programs if not (plan.bin_dir / name).is_file()]
    if missing:
        raise failure("compile", 0, said, log, f"no {', '.join(missing)} in {shown(plan.bin_dir)}")


def check_options_used(plan: BuildPlan, unused: Sequence[str]) -> None:
    """Refuse a build that ignores an option somebody asked for, or its backend switch.

    keyelab's own LLAMA_BUILD_… switches may be unknown to an older tree; that is harmless.
    """
    wanted = {*plan.asked_options, "GGML_HIP", "GGML_CUDA", "GPU_TARGETS"}
    ignored = [name for name in unused if name in wanted]
    if not ignored:
        return
    renamed = [f"{name} is now {_RENAMED[name]}" for name in ignored if name in _RENAMED]
    example = "set backend to hip and build.gpu_targets to gfx928 for a K100_AI"
    raise KeyelabError(
        f"expected CMake to use every option, it ignored {', '.join(ignored)}"
        + (f" ({'; '.join(renamed)})" if renamed else ""),
        f"take {'it' if len(ignored) == 1 else 'them'} out of build.cmake_options"
        + (f"; {example}" if renamed else ", or see the names: cmake -LH"),
    )


def failure(
    stage: str, returncode: int | None, output: str, log: Path, otherwise: str
) -> KeyelabError:
    """The error for a failed stage: first cause, its context, where the log is."""
    found = causes.first(output)
    status = "signal" if (returncode or 0) < 0 else "status"
    ended = f"{stage} ended with {status} {abs(returncode or 0)}"
    if found is None:
        return KeyelabError(f"{ended}: {otherwise}; log: {shown(log)}", f"tail {shown(log)}")
    context = "\n".join(f"  | {line}" for line in found.context.splitlines())
    target = f" while making {found.target}" if found.target else ""
    return KeyelabError(
        f"{ended}, first cause ({found.kind}{target}): {found.line}\n{context}\n"
        f"  log: {shown(log)}, line {found.line_number} of this command",
        found.remedy if found.remedy != "read the whole log" else f"less {shown(log)}",
    )


def _run(
    argv: Sequence[str],
    stage: str,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None] | None,
    pass_fds: Sequence[int],
) -> str:
    result = shell.run(argv, env=env, log=log, on_line=on_line, check=False, pass_fds=pass_fds)
    if result.returncode != 0:
        said = [line for line in result.output.splitlines() if line.strip()]
        raise failure(
            stage, result.returncode, result.output, log, said[-1] if said else "it said nothing"
        )
    return result.output


def _drop_other_tree(plan: BuildPlan) -> None:
    """CMake refuses a folder that was configured for a tree at another path: begin anew."""
    cache = plan.build_dir / "CMakeCache.txt"
    if not cache.is_file():
        return
    text = cache.read_text(encoding="utf-8", errors="replace")
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", text, re.MULTILINE)
    if home is None or Path(home.group(1)).resolve() != plan.source.resolve():
        shutil.rmtree(plan.build_dir)
