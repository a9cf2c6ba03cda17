"""Real runs that something is killed, taken or filled up under: nothing orphaned, nothing lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from homes import latest, make_home, phases, run_keyelab, start_keyelab

from keyelab.record.verify import verify
from keyelab.serving.state import ServerState, all_states, is_running

pytestmark = pytest.mark.e2e
ASKED = ["What happens in these pictures?"] * 100
LONG = ["--set", f"video_test.more_prompts={ASKED}"]
# halted in an answer, or between two of the hundred questions
LOST = ("the connection was lost", "nothing listens there")


def until(found: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
    """What `found` returns as soon as it is true."""
    deadline = time.monotonic() + limit_s
    while not (result := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.005)
    return result


class Going:
    """A `keyelab run --from serve` in progress; ends with the block, whatever happened in it."""

    def __init__(self, home: Path, *words: str) -> None:
        self.home = home
        self.process = start_keyelab(home, "run", "--from", "serve", *words)
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        first = until(lambda: self.lines, "a first line")[0]
        self.folder = home / first.removeprefix("run ").strip()

    def __enter__(self) -> Going:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join(60)
        for left in running(self.home) if any(error) else []:
            with contextlib.suppress(psutil.Error):
                left.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            self.lines.extend(iter(printed.readline, ""))

    def server(self) -> ServerState:
        """The server that it has started."""
        mine = f"records/cpu-demo/{self.folder.name}"
        states = all_states(self.home / "work")
        return next((one for one in states if one.run_dir == mine), None)  # type: ignore[return-value]

    def kernel(self) -> psutil.Process:
        """The notebook's kernel."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        (kernel,) = [one for one in children if "ipykernel_launcher" in " ".join(one.cmdline())]
        return kernel

    def reach(self, stage: str) -> ServerState:
        """Wait until it is loading or answering, and halt its server there."""
        server: ServerState = until(self.server, "the server's start")
        if stage == "answering":
            reply = self.folder / "logs" / "07_video_test-reply.jsonl"
            until(lambda: reply.exists() and reply.stat().st_size > 5000, "an answer")
        os.kill(server.pid, signal.SIGSTOP)
        assert (self.server().ready_s is None) == (stage == "loading")
        return server

    def says(self, sign: str) -> None:
        """Wait for a line."""
        until(lambda: any(sign in line for line in self.lines), sign)

    def end(self) -> tuple[int, str]:
        """Its exit status and all that it has printed."""
        code = self.process.wait(60)
        self.reader.join(60)
        return code, "".join(self.lines)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, demo_run: Path) -> Path:
    """A checkout of its own that starts from the demo's run."""
    return home_with(tmp_path_factory.mktemp("faults"), demo_run)


def home_with(folder: Path, run: Path) -> Path:
    home = make_home(folder)
    shutil.copytree(run, home / "records" / "cpu-demo" / run.name)
    (home / "records" / "cpu-demo" / "LATEST").write_text(run.name)
    return home


def running(home: Path) -> list[psutil.Process]:
    """Everything that runs from a checkout: runs, kernels, servers."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            of_home = str(home) in " ".join(process.cmdline())
            of_home |= process.environ().get("KEYELAB_HOME") == str(home)
            if of_home and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def assert_nothing_is_left(home: Path, server: ServerState | None = None) -> None:
    assert running(home) == []
    assert all_states(home / "work") == []
    assert server is None or is_free(server.port)


def assert_true(run: Path) -> None:
    """What `keyelab verify` finds of a record."""
    assert [item.name for item in verify(run) if item.status != "ok"] == []


def status(run: Path) -> str:
    return str(json.loads((run / "run.json").read_text())["status"])


def works(home: Path, last: str = "video_test") -> str:
    """Run again, from 06 on, and tell what was printed."""
    done = run_keyelab(home, "run", "--from", "serve", "--to", last)
    assert done.returncode == 0, done.stdout
    return done.stdout


STAGES = [("loading", "serve"), ("answering", "video_test")]


@pytest.mark.parametrize(("stage", "phase"), STAGES)
def test_a_killed_server_fails_its_phase_with_what_happened(
    home: Path, stage: str, phase: str
) -> None:
    with Going(home, *LONG) as run:
        server = run.reach(stage)
        os.kill(server.pid, signal.SIGKILL)
        code, said = run.end()
    assert code == 1, said
    entry = phases(run.folder)[phase]
    assert (status(run.folder), entry["status"]) == ("failed", "failed")
    message = entry["failure"]["message"]
    if stage == "loading":
        assert "ended with signal SIGKILL while loading" in message
    else:
        assert any(words in message for words in LOST)
        assert "SIGKILL" in message
        kept = run.folder / "logs" / "07_video_test-reply.jsonl"
        assert "red" in kept.read_text(), "what came of the answer is kept"
    assert "Traceback" not in said
    assert_nothing_is_left(home, server)
    assert_true(run.folder)
    works(home, phase)


@pytest.mark.parametrize(("stage", "phase"), STAGES)
def test_a_killed_kernel_leaves_no_server_and_a_true_record(
    home: Path, stage: str, phase: str
) -> None:
    with Going(home, *LONG) as run:
        server = run.reach(stage)
        run.kernel().kill()
        code, said = run.end()
    assert code == 138, said
    entry = phases(run.folder)[phase]
    assert (status(run.folder), entry["failure"]["kind"]) == ("failed", "dead-kernel")
    assert f"stopped the server on port {server.port}" in said
    assert_nothing_is_left(home, server)
    assert_true(run.folder)
    works(home, phase)


@pytest.mark.parametrize(("stage", "phase"), STAGES)
def test_a_killed_run_is_no_finished_one_and_its_server_is_adopted(
    home: Path, stage: str, phase: str
) -> None:
    before = latest(home)
    with Going(home, *(LONG if stage == "answering" else [])) as run:
        server = run.reach(stage)
        run.process.kill()
        assert run.end()[0] == -signal.SIGKILL
    until(lambda: len(running(home)) == 1, "the kernel's end", 20)
    assert is_running(server)
    os.kill(server.pid, signal.SIGCONT)
    assert (status(run.folder), latest(home)) == ("running", before)
    assert set(phases(run.folder)) >= {"serve", "video_test"}, "its record can be read"
    assert "still 'running': it was killed" in [item.found for item in verify(run.folder)]
    said = works(home, phase)
    way = f"keyelab stop --port {server.port}"
    assert f"runs on port {server.port}; to end it: {way}" in said
    found = phases(latest(home))["serve"]["facts"]["pid"]
    assert found == server.pid, "it was adopted"
    assert run_keyelab(home, "stop", "--port", str(server.port)).returncode == 0
    assert_nothing_is_left(home, server)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_runs_at_once_do_not_take_each_others_server(home: Path) -> None:
    words = ["run", "--from", "serve", "--to", "video_test"]
    port = ["--set", f"serve.port={free_port()}"]
    with Going(home, *words[3:], *port) as first:
        first.says("07_video_test frames")
        first.process.send_signal(signal.SIGSTOP)
        server = first.server()
        same = run_keyelab(home, *words, *port)
        assert same.returncode == 1, same.stdout
        message = phases(latest(home))["serve"]["failure"]["message"]
        assert f"{server.run_dir}, a run that still goes on (pid {first.process.pid})" in message
        assert "serve.port=0" in message
        other = run_keyelab(home, *words)
        assert other.returncode == 0, other.stdout
        assert phases(latest(home))["serve"]["facts"]["pid"] != server.pid
        assert is_running(server)
        first.process.send_signal(signal.SIGCONT)
        code, said = first.end()
    assert code == 0, said
    assert phases(first.folder)["video_test"]["status"] == "passed"
    assert_nothing_is_left(home, server)


def test_a_stranger_on_the_port_of_a_server_that_died_is_asked_nothing(
    home: Path, tmp_path: Path
) -> None:
    kept = ["--to", "serve", "--set", "serve.keep_server=true"]
    assert run_keyelab(home, "run", "--from", "serve", *kept).returncode == 0
    server = phases(latest(home))["serve"]["facts"]
    psutil.Process(server["pid"]).kill()
    port = int(server["url"].rpartition(":")[2])
    with stranger(port, tmp_path / "asked.log") as asked:
        words = ["--set", "serve.keep_server=true"]
        refused = run_keyelab(home, "run", "--from", "video_test", *words)
        assert refused.returncode == 1
        assert f"(pid {server['pid']}, {server['url']}) to run, found it stopped" in refused.stdout
        assert "keyelab run --target cpu-demo --from serve" in refused.stdout
        assert asked.read_text() == "", "not a word was sent to it"
        words = ["--to", "serve", "--set", f"serve.port={port}"]
        taken = run_keyelab(home, "run", "--from", "serve", *words)
        assert taken.returncode == 1
        message = phases(latest(home))["serve"]["failure"]["message"]
        assert "an HTTP server that is no llama-server" in message
        assert "kill " in message
    assert_nothing_is_left(home)
    works(home, "serve")


@contextlib.contextmanager
def stranger(port: int, log: Path) -> Iterator[Path]:
    """Another program that listens on the port; yields its log of requests."""
    argv = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink)
    try:
        until(lambda: not is_free(port), "the stranger")
        time.sleep(0.2)
        log.write_text("")
        yield log
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("stage", "phase"), STAGES)
def test_a_log_that_cannot_grow_ends_the_server_and_is_told(
    home: Path, stage: str, phase: str
) -> None:
    with Going(home, *LONG) as run:
        server = run.reach(stage)
        most = (home / server.log).stat().st_size
        psutil.Process(server.pid).rlimit(psutil.RLIMIT_FSIZE, (most, most))
        os.kill(server.pid, signal.SIGCONT)
        code, said = run.end()
    assert code == 1, said
    message = phases(run.folder)[phase]["failure"]["message"]
    if stage == "loading":
        assert f"ended with signal {signal.SIGXFSZ.name} while loading" in message
    else:
        assert any(words in message for words in LOST)
        assert "SIGXFSZ" in message
    assert_nothing_is_left(home, server)
    assert_true(run.folder)


@pytest.mark.parametrize("left_bytes", [900_000, 0])
def test_a_full_disk_is_told_and_the_next_run_works(
    tmp_path: Path, demo_run: Path, small_disk: Path, left_bytes: int
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "records").symlink_to(small_disk)
    home = home_with(tmp_path / "home", demo_run)
    junk = small_disk / "junk"
    with Going(home, "--to", "serve") as run:
        run.says("06_serve ...")
        with junk.open("wb", buffering=0) as sink, contextlib.suppress(OSError):
            sink.write(bytes(max(0, shutil.disk_usage(small_disk).free - left_bytes)))
        code, said = run.end()
    assert code == 1, said
    assert "No space left on device" in said
    assert "next: df -h" in said
    assert "Traceback" not in said
    assert_nothing_is_left(home)
    if left_bytes:
        assert (
            "expected to write the server's log"
            in phases(run.folder)["serve"]["failure"]["message"]
        )
        assert_true(run.folder)
    else:
        assert status(run.folder) == "running", "it was never sealed"
    junk.unlink()
    works(home, "serve")
