"""Digests are compared with the parameter or SHA256SUMS, else only recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.models import digest, plan, sums
from keyelab.params import ModelFetch


def packaged(**values: str) -> tuple[ModelFetch, plan.Plan]:
    params = ModelFetch(**values)  # type: ignore[arg-type]
    return params, plan.make(params, Path("work"), {})


def test_the_packaged_model_is_used_in_place_and_matches_its_sums() -> None:
    params, todo = packaged()
    assert todo.folder == plan.PACKAGED
    known = digest.expected(params, todo)
    files = digest.read(todo, lambda *_: None)
    assert [item.status for item in digest.checks(files, known)] == ["ok", "ok"]
    assert files["model"].path == "keyelab/models/demo/keyelab-tiny-f16.gguf"
    assert files["model"].size_bytes == 1_337_088


def test_a_wrong_digest_fails_and_says_both(tmp_path: Path) -> None:
    params, todo = packaged(model_sha256="ab" * 32)
    files = digest.read(todo, lambda *_: None)
    model, mmproj = digest.checks(files, digest.expected(params, todo))
    assert (model.status, mmproj.status) == ("failed", "ok")
    assert "ab" * 32 in model.expected
    assert model.found == files["model"].sha256


def test_a_digest_in_capitals_is_the_same_digest() -> None:
    _, todo = packaged()
    actual = digest.read(todo, lambda *_: None)["model"].sha256
    params, todo = packaged(model_sha256=actual.upper())
    known = digest.expected(params, todo)
    assert known["model"] == (actual, "model_sha256")


def test_text_that_is_no_digest_is_refused() -> None:
    params, todo = packaged(mmproj_sha256="12e4567")
    with pytest.raises(UsageError, match="expected 64 hex digits, found '12e4567'"):
        digest.expected(params, todo)


def test_without_a_known_digest_it_is_recorded_only(tmp_path: Path) -> None:
    for name in ("keyelab-tiny-f16.gguf", "mmproj-keyelab-tiny-f16.gguf"):
        shutil.copy(plan.PACKAGED / name, tmp_path)
    params, todo = packaged(source="path", model_dir=str(tmp_path))
    known = digest.expected(params, todo)
    files = digest.read(todo, lambda *_: None)
    assert known == {}
    assert digest.checks(files, known) == []
    assert digest.rows(files, known)[0]["compared with"] == "nothing: recorded only"


def test_progress_ends_at_the_whole() -> None:
    _, todo = packaged()
    told: list[float | None] = []
    digest.read(todo, lambda share, _: told.append(share))
    assert told[-1] == 1.0


def test_sums_keep_other_lines_and_read_back(tmp_path: Path) -> None:
    (tmp_path / sums.NAME).write_text(f"{'1' * 64} *other.bin\n\n{'2' * 64}  keye.gguf\n")
    sums.add(tmp_path, {"keye.gguf": "3" * 64})
    assert sums.read(tmp_path) == {"other.bin": "1" * 64, "keye.gguf": "3" * 64}
    assert sums.read(tmp_path / "absent") == {}


def test_a_broken_line_in_sums_is_named(tmp_path: Path) -> None:
    (tmp_path / sums.NAME).write_text("not a digest\n")
    with pytest.raises(KeyelabError, match="line 1, found 'not a digest'"):
        sums.read(tmp_path)
