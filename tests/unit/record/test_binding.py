"""Where the source of an executed notebook is looked for, and what is said when it is nowhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from recorded_run import make_run, rewrite

from keyelab.checks import Check
from keyelab.record.verify import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def record(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record in a checkout of its own."""
    home = shutil.copytree(made.parents[2], tmp_path / "home")
    monkeypatch.setenv("KEYELAB_HOME", str(home))
    return Path(home) / made.relative_to(made.parents[2])


def sources(record: Path) -> Check:
    return next(item for item in verify(record, quick=True) if item.name == "notebook sources")


def change(record: Path, name: str = "05_build.ipynb") -> None:
    path = record.parents[2] / "notebooks" / name
    path.write_text(path.read_text().replace("facts = build()", "facts = other()"))


def tool(record: Path, **values: Any) -> None:
    rewrite(record, "run.json", lambda run: run["tool"].update(values))


def test_the_commit_knows_the_source_when_the_working_tree_has_moved_on(record: Path) -> None:
    change(record)
    assert sources(record).status == "ok"
    assert "8 notebooks as at commit " in sources(record).found


def test_without_the_commit_the_source_is_known_by_its_digest(record: Path) -> None:
    shutil.rmtree(record.parents[2] / ".git")
    assert sources(record).status == "ok"
    assert sources(record).found == "8 notebooks as in notebooks/, by digest"
    change(record)
    assert sources(record).status == "unknown"
    assert "the source of 05_build is not here" in sources(record).found
    assert "git fetch origin " in sources(record).remedy


@pytest.mark.parametrize("commit", [None, "0" * 40, "--output=x", "HEAD"])
def test_another_commit_is_not_taken_for_the_recorded_one(record: Path, commit: str | None) -> None:
    tool(record, commit=commit)
    assert "in notebooks/, by digest" in sources(record).found
    change(record)
    assert sources(record).status == "unknown"


@pytest.mark.parametrize(("dirty", "status"), [(False, "failed"), (True, "unknown")])
def test_a_digest_that_the_commit_has_not_is_a_lie_unless_the_tree_was_dirty(
    record: Path, dirty: bool, status: str
) -> None:
    tool(record, dirty=dirty)
    rewrite(record, "run.json", lambda run: run["phases"][4].update(notebook_sha256="0" * 64))
    assert sources(record).status == status
    assert "05_build" in sources(record).found
