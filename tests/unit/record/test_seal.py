"""A sealed run: what it holds stays, and the log of a server that was left running may grow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyelab import pipeline
from keyelab.errors import KeyelabError
from keyelab.record import run as records
from keyelab.record import seal

LOG = "logs/06_serve-server-8080.log"


@pytest.fixture
def sealed(checkout: Any) -> Path:
    """A run of one phase, whose server was left running when it was sealed."""
    folder, _ = pipeline.run(pipeline.plan("cpu-demo", None, "env_check", {}), ["run"], print)
    (folder / LOG).write_text("main: model loaded\n")
    seal.seal(records.load(folder), folder, [folder / LOG])
    return folder


def test_a_log_that_is_still_written_may_grow(sealed: Path) -> None:
    with (sealed / LOG).open("a") as log:
        log.write("slot launched\n")
    assert seal.edits(sealed) == []
    sums = subprocess.run(["sha256sum", "--strict", "-c", seal.SUMS], cwd=sealed, check=False)
    assert sums.returncode == 0


def forge(folder: Path) -> None:
    (folder / LOG).write_text("main: model broken\n")
    run = records.load(folder)
    size = (folder / LOG).stat().st_size
    run.growing[LOG] = records.Growing(
        size_bytes=size, sha256=seal.sha256_file(folder / LOG, size_bytes=size)
    )
    records.save(run, folder)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda folder: (folder / LOG).write_text("main: model loadeD\nmore"), "content changed"),
        (lambda folder: (folder / LOG).write_text("main: model"), "content changed"),
        (lambda folder: (folder / LOG).unlink(), "missing"),
        (lambda folder: (folder / "logs/06_serve-server-9.log").write_text("x"), "added after"),
        (forge, "run.json: content changed"),
    ],
    ids=["edited", "cut", "removed", "another", "forged"],
)
def test_its_sealed_start_and_everything_else_may_not_change(
    sealed: Path, edit: Callable[[Path], Any], found: str
) -> None:
    edit(sealed)
    (said,) = seal.edits(sealed)
    assert found in said


def test_a_disk_that_is_full_at_the_end_is_one_sentence_and_the_record_no_pass(
    checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seal, "seal", full)
    todo = pipeline.plan("cpu-demo", None, "env_check", {})
    with pytest.raises(KeyelabError, match=r"No space left on device; .* was never sealed") as told:
        pipeline.run(todo, ["run"], print)
    assert "df -h" in told.value.hint
    (folder,) = (checkout.root / "records" / "cpu-demo").iterdir()
    assert records.load(folder).status == "running"
    assert records.load(folder).phases[0].status == "passed", "what was done is still told"
