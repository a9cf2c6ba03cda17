"""Each way a run can break is recorded as what it was (papermill alone records success)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from holding import other_holder

from keyelab.record import hold


def notebook(folder: Path, *cells: str) -> Path:
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )
    path = folder / "in.ipynb"
    nbformat.write(book, path)
    return path


def heed_interrupts() -> None:
    """A shell gives its background jobs, and so their children, an ignored SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(
    folder: Path, source: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "papermill", str(source), str(folder / "out.ipynb"),
         "--engine", "keyelab", "--no-progress-bar", *words],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1", **(env or {})},
        preexec_fn=heed_interrupts,
    )  # fmt: skip


def outcome(folder: Path) -> tuple[dict[str, Any], list[str]]:
    book = json.loads((folder / "out.ipynb").read_text())
    cells = [c for c in book["cells"] if c["cell_type"] == "code"]
    return book, [cell["metadata"]["papermill"]["status"] for cell in cells]


def wait_for_running(folder: Path, index: int) -> None:
    for _ in range(200):
        if (folder / "out.ipynb").exists() and outcome(folder)[1][index] == "running":
            return
        time.sleep(0.1)
    raise AssertionError("the cell never started")


def banner(book: dict[str, Any]) -> str:
    return "".join(book["cells"][0]["source"])


def test_a_dead_kernel_is_recorded_as_failed_and_exits_138(tmp_path: Path) -> None:
    source = notebook(tmp_path, "1", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "2")
    assert start(tmp_path, source).wait(60) == 138
    book, statuses = outcome(tmp_path)
    assert statuses == ["completed", "failed", "pending"]
    assert book["metadata"]["papermill"]["exception"] is True
    assert book["metadata"]["keyelab"]["reason"] == "dead-kernel"
    assert "the kernel died" in banner(book)


def test_a_cell_timeout_is_recorded_as_failed(tmp_path: Path) -> None:
    source = notebook(tmp_path, "1", "import time; time.sleep(60)", "2")
    assert start(tmp_path, source, "--execution-timeout", "2").wait(60) == 1
    book, statuses = outcome(tmp_path)
    assert statuses == ["completed", "failed", "pending"]
    assert book["metadata"]["keyelab"]["reason"] == "timeout"
    assert "ran out of time" in banner(book)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_recorded_as_interrupted_and_exits_130(
    tmp_path: Path, number: signal.Signals
) -> None:
    source = notebook(tmp_path, "1", "import time; time.sleep(60)", "2")
    process = start(tmp_path, source)
    wait_for_running(tmp_path, 1)
    process.send_signal(number)
    assert process.wait(60) == 130
    book, statuses = outcome(tmp_path)
    assert statuses == ["completed", "failed", "pending"]
    assert book["metadata"]["keyelab"]["outcome"] == "interrupted"
    assert "interrupted" in banner(book)


def test_a_raising_cell_is_recorded_as_failed(tmp_path: Path) -> None:
    source = notebook(tmp_path, "1", "raise ValueError('no such thing')", "2")
    assert start(tmp_path, source).wait(60) == 1
    book, statuses = outcome(tmp_path)
    assert statuses == ["completed", "failed", "pending"]
    assert book["metadata"]["keyelab"]["reason"] == "error"


def test_a_kernel_that_is_not_installed_is_two_lines_and_no_trace(tmp_path: Path) -> None:
    book = nbformat.read(notebook(tmp_path, "1"), 4)
    book.metadata["kernelspec"]["name"] = "dtk-py310"
    nbformat.write(book, tmp_path / "in.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "--engine", "keyelab",
         "--no-progress-bar", "--log-level", "ERROR"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "frozen modules" not in line][-2:]
    assert "kernel dtk-py310" in said[0]
    assert "python3" in said[0].partition("found ")[2]
    assert "-k python3" in said[1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.ipynb").exists(), "nothing is left that looks like a run"


def test_a_kernel_that_does_not_start_has_run_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "share" / "kernels" / "broken"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps({"argv": ["false", "{connection_file}"], "display_name": "b", "language": "x"})
    )
    source = notebook(tmp_path, "1", "2")
    code = start(
        tmp_path, source, "-k", "broken", env={"JUPYTER_PATH": str(tmp_path / "share")}
    ).wait(60)
    assert code != 0
    book, statuses = outcome(tmp_path)
    assert statuses == ["failed", "pending"]
    assert book["metadata"]["keyelab"]["outcome"] == "failed"


def test_a_good_run_is_recorded_as_completed_in_one_output_a_stream(tmp_path: Path) -> None:
    source = notebook(
        tmp_path, "for i in range(300):\n    print(i, flush=True)", "print('50 %\\r100 %')"
    )
    assert start(tmp_path, source).wait(60) == 0
    book, statuses = outcome(tmp_path)
    assert statuses == ["completed", "completed"]
    assert [len(cell["outputs"]) for cell in book["cells"]] == [1, 1]
    assert "widgets" not in book["metadata"]
    assert not list(tmp_path.glob(".out*")), "a temporary file was left"


def test_a_secret_in_an_output_is_redacted_before_it_is_written(tmp_path: Path) -> None:
    source = notebook(tmp_path, "print('api' + '_key=abc' + 'def123456')")
    assert start(tmp_path, source).wait(60) == 0
    text = (tmp_path / "out.ipynb").read_text()
    assert "abcdef123456" not in text
    assert "[redacted]" in text


def parameterized(folder: Path, *cells: str) -> Path:
    path = notebook(folder, "run_dir = ''", *cells)
    book = nbformat.read(path, 4)
    book.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(book, path)
    return path


def test_a_run_folder_in_use_or_sealed_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    source = parameterized(tmp_path, "1")
    held, sealed = tmp_path / "held", tmp_path / "sealed"
    held.mkdir()
    sealed.mkdir()
    (sealed / "SHA256SUMS").write_text("")
    with other_holder(held) as pid:
        for folder, why in (
            (held, f"in use by a run that goes on (pid {pid})"),
            (sealed, "expected a run folder that is not sealed, found the record"),
        ):
            before = list(folder.iterdir())
            done = subprocess.run(
                [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "--engine", "keyelab",
                 "--no-progress-bar", "--log-level", "ERROR", "-p", "run_dir", str(folder)],
                cwd=source.parent, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 1
            assert why in done.stderr
            assert "Traceback" not in done.stderr
            assert not (tmp_path / "out.ipynb").exists()
            assert list(folder.iterdir()) == before


def test_the_kernel_of_a_killed_run_holds_the_folder_until_it_is_gone(tmp_path: Path) -> None:
    source = parameterized(tmp_path, "import time; time.sleep(60)")
    run = tmp_path / "run"
    process = start(tmp_path, source, "-p", "run_dir", str(run))
    wait_for_running(tmp_path, 2)  # after the parameters and those that were given
    (kernel,) = set(hold.holders(run)) - {process.pid}
    os.kill(kernel, signal.SIGSTOP)
    process.kill()
    process.wait()
    assert hold.is_held(run)
    assert hold.holders(run) == [kernel]
    os.kill(kernel, signal.SIGCONT)
    with hold.held(run, wait_s=20):
        assert hold.holders(run) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kernel_that_is_still_starting_ends_with_its_interrupted_run(
    tmp_path: Path, number: signal.Signals
) -> None:
    spec = tmp_path / "share" / "kernels" / "slow"
    spec.mkdir(parents=True)
    words = [sys.executable, "-c", "import time; time.sleep(600)", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": words, "display_name": "s", "language": "x"})
    )
    source = notebook(tmp_path, "1")
    path = {"JUPYTER_PATH": str(tmp_path / "share")}
    process = start(tmp_path, source, "-k", "slow", env=path)
    kernels: list[psutil.Process] = []
    while not kernels:
        assert process.poll() is None
        below = psutil.Process(process.pid).children()
        kernels = [one for one in below if "time.sleep(600)" in " ".join(one.cmdline())]
    process.send_signal(number)
    assert process.wait(60) == 130
    assert not kernels[0].is_running()
    book, statuses = outcome(tmp_path)
    assert statuses == ["failed"]
    assert book["metadata"]["keyelab"]["outcome"] == "interrupted"
