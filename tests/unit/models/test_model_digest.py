"""Digests are compared with the parameter or SHA256SUMS, else only recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.errors import UsageError
from keyelab.facts import FileFact
from keyelab.models import digest
from keyelab.models.fetch import PACKAGED
from keyelab.params import ModelFetch


def packaged_files(told: list[float | None] | None = None) -> dict[str, FileFact]:
    given = ModelFetch()
    return digest.read(
        PACKAGED / given.model_file,
        PACKAGED / given.mmproj_file,
        lambda share, _: (told if told is not None else []).append(share),
    )


def test_the_packaged_model_matches_its_sums_and_progress_ends_at_the_whole() -> None:
    told: list[float | None] = []
    files = packaged_files(told)
    known = digest.expected(ModelFetch(), PACKAGED)
    assert [item.status for item in digest.checks(files, known)] == ["ok", "ok"]
    assert files["model"].path == "keyelab/models/demo/keyelab-tiny-f16.gguf"
    assert files["model"].size_bytes == 2_164_864
    assert told[-1] == 1.0


def test_a_wrong_digest_fails_and_says_both() -> None:
    files = packaged_files()
    known = digest.expected(ModelFetch(model_sha256="ab" * 32), PACKAGED)
    model, mmproj = digest.checks(files, known)
    assert (model.status, mmproj.status) == ("failed", "ok")
    assert (model.expected, model.found) == ("ab" * 32, files["model"].sha256)


def test_a_digest_in_capitals_is_the_same_digest() -> None:
    known = digest.expected(ModelFetch(model_sha256="AB" * 32), PACKAGED)
    assert known["model"] == "ab" * 32


def test_text_that_is_no_digest_is_refused() -> None:
    with pytest.raises(UsageError, match="expected 64 hex digits, found '12e4567'"):
        digest.expected(ModelFetch(mmproj_sha256="12e4567"), PACKAGED)


def test_without_a_known_digest_it_is_recorded_only(tmp_path: Path) -> None:
    assert digest.expected(ModelFetch(), tmp_path) == {}
    assert digest.checks(packaged_files(), {}) == []


def test_sums_keep_other_lines_and_read_back(tmp_path: Path) -> None:
    text = f"{'1' * 64} *other.bin\n\nno digest\n{'2' * 64}  keye.gguf\n"
    (tmp_path / digest.SUMS).write_text(text)
    digest.add_sums(tmp_path, {"keye.gguf": "3" * 64})
    assert digest.read_sums(tmp_path) == {"other.bin": "1" * 64, "keye.gguf": "3" * 64}
    assert digest.read_sums(tmp_path / "absent") == {}
