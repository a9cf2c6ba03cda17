"""Running a plan: configure, compile, and the first cause when one of them fails."""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from keyelab import shell
from keyelab.build import result
from keyelab.build.plan import BuildPlan
from keyelab.diagnose import diagnose
from keyelab.errors import KeyelabError
from keyelab.files import shown

OnProgress = Callable[[float | None, str], None]
_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
_OBJECT = re.compile(r"^(Building|Linking) .+? (?:object|executable|library|module) (\S+)")


def build(
    plan: BuildPlan, env: Mapping[str, str], log: Path, on_progress: OnProgress, reuse: bool = True
) -> bool:
    """Configure and compile; with `reuse` a finished build is left as it is and True returned.

    Everything printed goes to `log`. Raises KeyelabError with the first cause, also when an
    option of cmake_options was not used or a program is missing although the exit status is 0.
    """

    def tell(line: str) -> None:
        if found := progress(line):
            on_progress(*found)

    with locked(plan, on_progress) as lock:
        if reuse and result.finished(plan):
            return True
        result.begin(plan)
        on_progress(0.0, "configuring")
        environment = {**env, **plan.environment}
        for argv in (plan.configure, plan.compile):
            above = log.stat().st_size if log.exists() else 0
            done = shell.run(
                argv, env=environment, log=log, on_line=tell, check=False, pass_fds=[lock]
            )
            if done.returncode != 0:
                raise _failure(done, log, above)
            _check_options_used(plan, done.output)
    missing = [name for name in plan.programs if not (plan.bin_dir / name).is_file()]
    if missing:
        raise KeyelabError(
            f"expected {', '.join(missing)} in {shown(plan.bin_dir)}, found none although ninja "
            "ended with status 0",
            f"less {shown(log)}",
        )
    return False


@contextlib.contextmanager
def locked(plan: BuildPlan, on_progress: OnProgress) -> Iterator[int]:
    """Hold a build folder against other writers; yields the descriptor for `pass_fds`.

    A child that inherits it keeps the lock when this process dies, so a compiler left behind by
    a killed kernel is waited for.
    """
    path = plan.build_dir.with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(None, f"waiting for the writer of this build: fuser {shown(path)}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def progress(line: str) -> tuple[float, str] | None:
    """The share done (0 to 1) and what is being made, where a line of ninja's tells it."""
    step = _STEP.match(line)
    if step is None:
        return None
    done, total, what = int(step[1]), int(step[2]), step[3]
    if made := _OBJECT.match(what):
        verb = "compiling" if made[1] == "Building" else "linking"
        what = f"{verb} {made[2].rsplit('/', 1)[-1].removesuffix('.o')}"
    return done / max(total, 1), f"{done} of {total}: {what}"


def _check_options_used(plan: BuildPlan, output: str) -> None:
    # keyelab's own LLAMA_BUILD_… switches may be unknown to an older tree; that is harmless
    asked = {*plan.params.cmake_options, *plan.source.cmake}
    wanted = {*asked, "GGML_HIP", "GGML_CUDA", "GPU_TARGETS"}
    ignored = [name for name in unused_options(output) if name in wanted]
    if ignored:
        raise KeyelabError(
            f"expected CMake to use every option, it ignored {', '.join(ignored)}",
            "take unknown names out of build.cmake_options (cmake -LH lists the known ones); "
            "a card is chosen with backend and build.gpu_targets",
        )


def unused_options(log: str) -> list[str]:
    """Names in CMake's warning that variables were given and not used, in its order."""
    found = re.findall(r"variables were not used by the project:\n\n((?:    .+\n)+)", log)
    return " ".join(found).split()


def _failure(done: shell.Result, log: Path, above: int) -> KeyelabError:
    report = diagnose([(log, above)])
    return KeyelabError(
        f"{Path(done.argv[0]).name} ended with status {done.returncode}: {report.sentence}; "
        f"log: {shown(log)}",
        report.hint if report.cause else f"less {shown(log)}",
        str(report),
    )
