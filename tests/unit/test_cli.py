"""The command line: exit codes, one sentence and a hint, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

USAGE, FAILED, INTERNAL, INTERRUPTED = 2, 1, 3, 130


def keyelab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from keyelab.cli import main; main()", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["run", "--target", "cpu-dem"], USAGE, "did you mean 'cpu-demo'?"),
        (["run", "--from", "biuld"], USAGE, "did you mean 'build'?"),
        (["run", "--set", "build.job=2"], USAGE, "did you mean 'jobs'?"),
        (["run", "--set", "jobs=2"], USAGE, "expected phase.key=value, found 'jobs=2'"),
        (["run", "--set", "build.jobs=many"], USAGE, "expected a whole number, found 'many'"),
        (["run", "--set", "serve.flash_attention=yes"], USAGE, "one of auto, on, off"),
        (["run", "--tarte", "x"], USAGE, "No such option"),
        (["run", "--from", "serve"], FAILED, "expected an earlier run of cpu-demo"),
        (["verify"], FAILED, "expected a run of cpu-demo"),
        (["verify", "nowhere"], FAILED, "expected a file at"),
        (["report"], FAILED, "next: keyelab run --target cpu-demo"),
        (["stop", "--port", "9"], FAILED, "expected a server of keyelab on port 9"),
        (["stop"], 0, "no server to stop"),
        (["status"], 0, "no server"),
    ],
)
def test_bad_input_is_one_sentence_with_the_right_exit_code(
    checkout: Any, words: list[str], code: int, sentence: str
) -> None:
    done = keyelab(*words)
    assert sentence in done.stdout
    assert done.returncode == code
    assert "Traceback" not in done.stdout
    assert not (checkout.root / "records").exists()


def test_a_broken_params_file_is_named(checkout: Any) -> None:
    checkout.params("build", "jobs: [1\n")
    done = keyelab("run")
    assert done.returncode == USAGE
    assert "expected YAML in params/cpu-demo/build.yaml" in done.stdout


def test_an_internal_error_keeps_its_traceback_in_a_file(checkout: Any) -> None:
    (checkout.root / "notebooks" / "03_header_fixes.ipynb").unlink()
    done = keyelab("run")
    assert done.returncode == INTERNAL
    assert "internal error" in done.stdout
    log = done.stdout.split("report it with ")[1].strip()
    with open(log) as stream:  # noqa: PTH123
        assert "Traceback" in stream.read()
    os.unlink(log)  # noqa: PTH108


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_sealed_as_interrupted(checkout: Any, number: int) -> None:
    checkout.write("model_fetch", "import time; print('waiting', flush=True); time.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "-c", "from keyelab.cli import main; main()", "run"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # off in a background job
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "waiting" in line:
            break
    time.sleep(0.3)
    process.send_signal(number)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == INTERRUPTED
    assert "02_model_fetch   interrupted" in rest
    done = keyelab("verify")
    assert done.returncode == 0, done.stdout
    assert "interrupted" in done.stdout
