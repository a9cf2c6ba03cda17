"""The demo's record against everything that it names, and copies of it that were tampered with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from homes import run_keyelab

from keyelab.files import write_text
from keyelab.record import seal

pytestmark = pytest.mark.e2e


def reseal(run: Path) -> None:
    """What somebody does who wants an edit not to show."""
    files = sorted(seal.listed(run).items())
    lines = [f"{seal.sha256_file(path)}  {name}\n" for name, path in files]
    write_text(run / seal.SUMS, "".join(lines))


def test_every_check_of_the_demo_is_ok(demo_home: Path, demo_run: Path) -> None:
    done = run_keyelab(demo_home, "verify", str(demo_run))
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1].endswith(" verified: a run that passed, 19 of 19 checks ok")
    assert {line.split()[0] for line in lines[:-1]} == {"ok"}
    for name in ("source patches: 12 diffs make", "header patches: 2 diffs", "binaries: "):
        assert f"ok      {name}" in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("05_build.ipynb", "shell.execute_reply", "shell.said", "the kernel never answered"),
        ("05_build.ipynb", "## Preflight", "## Preflown", "is not the source's"),
        ("run.json", '"value": 8192', '"value": 4096', "parameters differ from run.json"),
        ("patches/03-norm-256.diff", "256", "128", "source patches"),
        ("patches/header-cg-any-sync.diff", "ifndef", "ifdef", "header patches"),
        ("facts/build.json", "Release", "Debug", "facts differ from run.json"),
        ("run.json", "b10019-", "b10020-", "facts differ from run.json"),
    ],
)
def test_an_edit_that_was_sealed_again_contradicts_the_rest(
    demo_home: Path, demo_run: Path, tmp_path: Path, name: str, old: str, new: str, found: str
) -> None:
    run = Path(shutil.copytree(demo_run, tmp_path / "copy"))
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new))
    reseal(run)
    done = run_keyelab(demo_home, "verify", str(run))
    assert done.returncode == 1, done.stdout
    assert "ok      files as sealed" in done.stdout
    assert found in done.stdout


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: (run / "index.html").write_text("passed"),
        lambda run: (run / "index.html").unlink(),
        lambda run: (run / "index.html").rename(run / "page.html"),
        lambda run: (run / "index.html.bak").write_text(""),
        lambda run: (run / "index.html").unlink() or (run / "index.html").symlink_to("run.json"),
    ],
    ids=["edited", "gone", "renamed", "added", "link"],
)
def test_an_edit_is_named(
    demo_home: Path, demo_run: Path, tmp_path: Path, edit: Callable[[Path], object]
) -> None:
    run = Path(shutil.copytree(demo_run, tmp_path / "copy"))
    edit(run)
    done = run_keyelab(demo_home, "verify", "--quick", str(run))
    assert done.returncode == 1
    assert "failed  files as sealed: index.html" in done.stdout
