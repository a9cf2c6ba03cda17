"""Running programs: argv lists only, logged, streamed line by line, with a deadline."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from keyelab.errors import CommandFailed, ProgramMissing
from keyelab.files import redact, shown

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Result:
    """What a program did: its command, exit status, standard output with errors, seconds."""

    argv: tuple[str, ...]
    returncode: int
    output: str
    duration_s: float


def quoted(argv: Sequence[str | Path]) -> str:
    """One line that a person can paste into a shell."""
    return shlex.join(str(word) for word in argv)


def find(program: str | Path, env: Mapping[str, str] | None = None) -> Path | None:
    """Where `program` is on PATH (of `env`), or None."""
    hit = shutil.which(str(program), path=(env or os.environ).get("PATH", os.defpath))
    return Path(hit) if hit else None


def environment(tools_dir: str = "", extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with `extra` set and the folders of `tools_dir` first on PATH.

    In a value of `extra`, ${NAME} of its own name is what this process has, and ~/ the home folder.
    """
    from keyelab.files import located

    env = {**os.environ, **{name: _unfolded(name, text) for name, text in (extra or {}).items()}}
    folders = [str(located(part)) for part in tools_dir.split(":") if part]
    env["PATH"] = os.pathsep.join([*folders, env.get("PATH", os.defpath)])
    return env


def _unfolded(name: str, text: str) -> str:
    own, was = f"${{{name}}}", os.environ.get(name, "")
    if own in text:
        # an empty part of a search path would be the current folder
        text = os.pathsep.join(part for part in text.replace(own, was).split(os.pathsep) if part)
    return os.pathsep.join(
        os.path.expanduser(part) if part.startswith("~/") else part  # noqa: PTH111
        for part in text.split(os.pathsep)
    )


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    timeout_s: float | None = None,
    on_line: Callable[[str], None] | None = None,
    ok_codes: Collection[int] = (0,),
    check: bool = True,
    pass_fds: Sequence[int] = (),
) -> Result:
    """Run a program to its end and return its output.

    The command and everything it prints are appended to `log`; `on_line` sees each line as it
    comes. The program gets no standard input and dies with this process. `check=False` returns
    a failing Result instead of raising.

    Raises ProgramMissing before anything runs, CommandFailed for another exit status than
    `ok_codes` or when `timeout_s` has passed (the whole process group is ended first).
    """
    words = [str(word) for word in argv]
    program = find(words[0], env)
    if program is None:
        raise ProgramMissing(
            f"expected the program {words[0]!r} on PATH, found none",
            f"install it, or name its folder in the parameter tools_dir: {words[0]} --version",
        )
    started = time.monotonic()
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    sink = None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = log.open("a", encoding="utf-8")
        sink.write(f"# {stamp} $ {redact(quoted(words))}\n")
    process = subprocess.Popen(
        words,
        executable=program,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        bufsize=1,
        preexec_fn=own_group_and_die_with_parent,
        pass_fds=tuple(pass_fds),
    )
    timed_out = threading.Event()

    def expire() -> None:
        timed_out.set()
        _end_group(process)

    timer = threading.Timer(timeout_s, expire) if timeout_s else None
    lines: list[str] = []
    try:
        if timer:
            timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if sink:
                sink.write(redact(line))
                sink.flush()
            if on_line:
                on_line(line.rstrip("\n"))
        code = process.wait()
    except BaseException:
        _end_group(process)
        raise
    finally:
        if timer:
            timer.cancel()
        if process.stdout is not None:
            process.stdout.close()
        if sink:
            sink.write(f"# exit status {process.returncode}\n")
            sink.close()
    result = Result(tuple(words), code, "".join(lines), time.monotonic() - started)
    where = f"; log: {shown(log)}" if log else ""
    if timed_out.is_set():
        raise CommandFailed(
            f"expected {words[0]} to end within {timeout_s:g} s, it was still running{where}",
            f"run it by hand: {redact(quoted(words))}",
            returncode=None,
            log=log,
        )
    if check and code not in ok_codes:
        raise CommandFailed(
            f"{Path(words[0]).name} ended with {status(code)}: {_last_words(lines)}{where}",
            f"run it by hand: {redact(quoted(words))}",
            returncode=code,
            log=log,
        )
    return result


def fate(pid: int, wait_s: float = 0.0) -> str:
    """How a program stands that may be another's child: 'still runs', 'ended with …', 'is gone'.

    `wait_s` is how long one that runs may take to end. Its status is there until its parent asks.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return "is gone"
        if words[0] in "ZX":  # the state is the third field of proc(5), exit_code the 52nd
            code = os.waitstatus_to_exitcode(int(words[49]))
            return f"ended with {status(code)}" if code else "has ended"  # 0 may be a refusal
        if time.monotonic() > deadline:
            return "still runs"
        time.sleep(0.05)


def inherit_orphans() -> None:
    """Become the parent of what children leave running, so that `fate` can tell how it ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def own_group_and_die_with_parent() -> None:
    """What a child does before it becomes another program, as preexec_fn."""
    os.setpgid(0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_group(process: subprocess.Popen[str]) -> None:
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue


def status(code: int) -> str:
    """How a process ended, from its exit code; below 0 is a signal."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def _last_words(lines: Sequence[str]) -> str:
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if "error" in line.lower()]
    return (errors or said or ["it printed nothing"])[-1][:300]
