"""Waiting until servers answer, and noticing at once when one never will."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keyelab.diagnose import Report, diagnose
from keyelab.diagnose.finding import quoted
from keyelab.errors import KeyelabError
from keyelab.files import located, shown
from keyelab.serving import evidence, memory, occupant, port, probe
from keyelab.serving.process import exit_status
from keyelab.serving.progress import Progress
from keyelab.serving.state import ServerState, process_of
from keyelab.shell import quoted as command
from keyelab.shell import status as ending

_MEASURABLE_BYTES = 2**28
OnProgress = Callable[[float | None, str], None]


class Load:
    """One server on its way; `poll` it until it is ready.

    `standstill_s` is the longest time without growth, `size_bytes` what its model files have.
    """

    def __init__(self, state: ServerState, standstill_s: float, size_bytes: int = 0) -> None:
        self.state, self.standstill_s = state, standstill_s
        # of small files nothing shows: the program itself takes more memory
        self.size_bytes = size_bytes if size_bytes > _MEASURABLE_BYTES else 0
        self.started = time.monotonic()
        self.progress: Progress | None = None
        self.took_s: float | None = None

    def poll(self) -> bool:
        """Whether /health and /props both answer.

        Raises KeyelabError when the process has ended (exit status 0 too), when nothing of it has
        moved for the longest standstill, when the whole takes too long, when another process
        listens on its port, and KeyRefused.
        """
        if self.took_s is not None:
            return True
        process = process_of(self.state)
        if process is None:
            raise self._ended()
        if self.progress is None:
            size, log = self.size_bytes, located(self.state.log)
            self.progress = Progress(process, log, size, self._cards_bytes)
        if self._answers():
            self.took_s = time.monotonic() - self.started
            return True
        self._judge(self.progress)
        return False

    def fraction(self) -> float | None:
        """How much of its files has arrived."""
        if self.took_s is not None:
            return 1.0
        return self.progress.fraction() if self.progress else None

    def text(self) -> str:
        """What it does, for a progress line."""
        if self.took_s is not None or self.progress is None:
            return f"port {self.state.port} is ready"
        gone, speed = time.monotonic() - self.started, self.progress.speed_bps()
        read = f", {self.progress.loaded_bytes() / 1e9:.1f} of {self.size_bytes / 1e9:.1f} GB"
        pace = f" at {speed / 1e6:.0f} MB/s" if speed else ""
        quiet = f", quiet for {self.progress.quiet_s():.0f} s"
        last = self.progress.last_line()[:80]
        return f"loading for {gone:.0f} s{read * bool(self.size_bytes)}{pace}{quiet}: {last}"

    def _answers(self) -> bool:
        state = self.state
        # without the key until it is known who listens; /health is 200 a moment before the rest is
        health = probe.ask(state.url, "/health").status
        if health not in (None, 200):  # None may be another one that joined the port, and is silent
            return False
        others = port.strangers(state.host, state.port, state.pid)
        if health is None:
            others.discard(None)  # its own socket, while it is being opened, has no owner yet
        if others and others == port.listeners(state.port, state.host):
            return False  # it has lost the port, and says so in a moment
        if others:
            who, remedy = occupant.of(state.host, state.port, next(iter(others)))
            raise KeyelabError(
                f"expected only the server (pid {state.pid}) on port {state.port}, found also "
                f"{who}: the kernel gives each client to either",
                f"{remedy}, or set serve.port to 0",
            )
        return health == 200 and probe.get(state.url, "/props", state.api_key_file) is not None

    def _judge(self, progress: Progress) -> None:
        waited, quiet = time.monotonic() - self.started, progress.quiet_s()
        last = quoted(progress.last_line())
        if quiet >= self.standstill_s:
            raise self._late(
                f"expected the server (pid {self.state.pid}) to load, it is stuck: nothing has "
                f"moved for {quiet:.1f} s, neither log, memory nor reads ({progress.load()}); its "
                f"log's last line: {last}"
            )
        deadline_s = progress.deadline_s(self.standstill_s)
        if waited >= deadline_s:
            raise self._late(
                f"expected the server to be ready within {deadline_s:.3g} s, it is slow "
                f"and still loads, something moved {quiet:.1f} s ago; its log's last line: {last}",
                "keyelab run --from serve "
                f"--set serve.ready_timeout_s={max(self.standstill_s, deadline_s / 10) * 3:g}",
            )

    def _late(self, message: str, hint: str = "") -> KeyelabError:
        try:
            kept = f"; evidence: {shown(evidence.collect(self.state, message))}"
        except OSError as error:
            kept = f"; evidence could not be kept: {error.strerror}"
        report = read_log(self.state, message)
        message = f"{message}; log: {self.state.log}{kept}"
        return KeyelabError(message, hint or report.hint, str(report))

    def _ended(self) -> KeyelabError:
        state = self.state
        code = exit_status(state.pid)
        how = "" if code is None else f" with {ending(code)}"
        report = read_log(state)
        where, hint = "", report.hint if report.cause else f"run it by hand: {command(state.argv)}"
        if others := port.listeners(state.port, state.host):  # also where the log came to nothing
            who, remedy = occupant.of(state.host, state.port, next(iter(others)))
            where, hint = f"; on port {state.port} is {who}", f"{remedy}, or set serve.port to 0"
        return KeyelabError(
            f"expected llama-server to become ready, it ended{how} while loading: "
            f"{report.sentence}; log: {state.log}{where}",
            hint,
            str(report),
        )

    def _cards_bytes(self) -> int | None:
        found = [n for n in memory.used(self.state.cards).values() if n is not None]
        return sum(found) if found else None


def wait(loads: Sequence[Load], on_progress: OnProgress) -> None:
    """Wait until all are ready; raises what the first that fails raises."""
    started = time.monotonic()
    while not all([load.poll() for load in loads]):
        left = [load for load in loads if load.took_s is None]
        shares = [load.fraction() for load in loads]
        known = [share for share in shares if share is not None]
        done = f"{len(loads) - len(left)} of {len(loads)} ready; " if len(loads) > 1 else ""
        share = sum(known) / len(loads) if len(known) == len(loads) else None
        on_progress(share, f"{done}{left[0].text()}")
        time.sleep(min(0.1 + (time.monotonic() - started) / 20, 1.0))


def read_log(state: ServerState, *said: str) -> Report:
    """What the server's log says, and after it what was `said` elsewhere."""
    log = located(state.log)
    return diagnose([*([log] if log.is_file() else []), *said])
