"""The probe of the real card: a small HIP program, built in several ways and run.

Its transcript is text: what the compiler and the programs print, and between that JSON objects,
one a line. Each trial begins with {"trial": …} and ends with {"end": …}.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab import shell
from keyelab.errors import CommandFailed, KeyelabError
from keyelab.files import redact

SOURCE = Path(__file__).parent / "data" / "probe.hip.cpp"
RAISED = "--gpu-max-threads-per-block=1024"
BUILD_S, RUN_S = 300.0, 60.0


@dataclass(frozen=True)
class Trial:
    """One build of the program, and one launch of so many threads a block."""

    name: str
    flags: tuple[str, ...]
    threads: int


# A launch over the compiler's bound is undefined: those two are last, so as to spoil nothing.
TRIALS = (
    Trial("control", (), 64),
    Trial("bound-512", ("-DBOUND=512",), 512),
    Trial("bound-1024", ("-DBOUND=1024",), 1024),
    Trial("flag-1024", (RAISED,), 1024),
    Trial("sdot4", ("-DSDOT4",), 64),
    Trial("dot2", ("-DDOT2",), 64),
    Trial("plain-1024", (), 1024),
    Trial("plain-512", (), 512),
)


def transcript(
    compiler: str,
    arch: str,
    env: Mapping[str, str],
    log: Path,
    on_progress: Callable[[float | None, str], None] = lambda fraction, text: None,
    run_s: float = RUN_S,
) -> str:
    """Compile and run every trial for `arch`; what a failing one says is part of the answer.

    The text is also kept in `log`, line by line. Everything built is in a temporary folder that
    is gone afterwards; a program that is still running after `run_s` seconds is ended.
    """
    lines: list[str] = []
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w", encoding="utf-8") as sink,
        tempfile.TemporaryDirectory(prefix="keyelab-probe-") as folder,
    ):

        def say(line: str) -> None:
            lines.append(redact(line))
            sink.write(f"{lines[-1]}\n")
            sink.flush()

        hip = [compiler, "-x", "hip", f"--offload-arch={arch}"]
        for number, trial in enumerate(TRIALS):
            on_progress(number / len(TRIALS), trial.name)
            say(json.dumps({"trial": trial.name, "compiled_for": arch}))
            same = next(other for other in TRIALS if other.flags == trial.flags)
            program = Path(folder) / same.name
            end = {"end": "built"}
            if not program.exists():
                words = [*hip, "-O2", *trial.flags, str(SOURCE), "-o", str(program)]
                end = _step(words, env, BUILD_S, say, "built")
            if end["end"] == "built":
                end = _step([str(program), str(trial.threads)], env, run_s, say, "ran")
            say(json.dumps(end))
            if end["end"].endswith("timed out") or (end["end"] != "ran" and trial is TRIALS[0]):
                break  # a card that hangs answers nothing more; without one, nor does the rest
        say(json.dumps({"trial": "macros", "compiled_for": arch}))
        # without the headers: only what the compiler itself defines
        words = ["--cuda-device-only", "-nogpuinc", "-nogpulib", "-dM", "-E", "/dev/null"]
        say(json.dumps(_step([*hip, *words], env, BUILD_S, say, "built")))
    return "\n".join(lines) + "\n"


def _step(
    argv: list[str], env: Mapping[str, str], timeout_s: float, say: Callable[[str], None], done: str
) -> dict[str, str]:
    """Run one program; its end is `done`, or what kept it from that and why."""
    errors: list[str] = []

    def hear(line: str) -> None:
        say(line)
        errors.extend(re.split("error: ", line, flags=re.IGNORECASE)[1:2])

    say(f"$ {shell.quoted(argv)}")
    try:
        shell.run(argv, env=env, timeout_s=timeout_s, on_line=hear)
    except CommandFailed as error:
        if error.returncode is None:
            return {"end": f"not {done}: timed out", "says": f"still running after {timeout_s:g} s"}
        # a compiler's last line only counts its errors
        return {"end": f"not {done}: failed", "says": errors[0] if errors else error.message}
    except (KeyelabError, OSError) as error:
        return {"end": f"not {done}: not started", "says": getattr(error, "message", str(error))}
    return {"end": done}
