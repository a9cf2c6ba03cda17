"""Diffs, trees and files that a record names: the same, another, or not here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded_run import RUN_ID, make_run, reseal, rewrite

from keyelab.checks import Check
from keyelab.files import write_json
from keyelab.record import outside
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


def found(record: Path, name: str) -> Check:
    return next(item for item in verify(record) if item.name == name)


def root(record: Path) -> Path:
    return record.parents[2]


@pytest.mark.parametrize(
    ("group", "path"),
    [
        ("model files", "models/model.gguf"),
        ("model files", "models/mmproj.gguf"),
        ("binaries", "work/builds/0/llama-server"),
        ("video", "work/videos/clip.mp4"),
        ("toolkit headers", "toolkit/include/hip/info.h"),
    ],
)
def test_a_changed_file_fails_with_both_digests_and_one_that_is_gone_is_unknown(
    record: Path, group: str, path: str
) -> None:
    file = root(record) / path
    before = outside.sha256_file(file)
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    check = found(record, group)
    assert check.status == "failed"
    assert f"{path}: expected sha256 {before}, found {outside.sha256_file(file)}" in check.found
    file.unlink()
    check = found(record, group)
    assert check.status == "unknown"
    assert "not here: " in check.found
    assert path in check.found


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("value", [{"binaries": 1, "model": [1], "overlay": 1}, {"overlay": "x"}])
def test_facts_of_another_shape_end_in_a_verdict(
    record: Path, number: int, value: dict[str, Any]
) -> None:
    rewrite(record, "run.json", lambda run: run["phases"][number].update(facts=value))
    assert "failed" in {item.status for item in verify(record)}


def test_a_path_that_is_no_plain_file_is_not_read(record: Path) -> None:
    """A record comes from anybody: /dev/zero has no end."""
    video = {"path": "/dev/zero", "sha256": "0" * 64, "size_bytes": 1}
    rewrite(record, "run.json", lambda run: run["phases"][6]["facts"].update(video=video))
    assert found(record, "video").status == "unknown"


def test_long_reading_is_told(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_TELL_BYTES", 1000)
    lines: list[str] = []
    verify(record, say=lines.append)
    assert any(line.startswith("model files: ") for line in lines)


def test_headers_corrected_in_place_have_the_digest_that_the_backup_notes(record: Path) -> None:
    header = root(record) / "toolkit" / "include" / "hip" / "info.h"
    entry = {"path": "toolkit/include/hip/info.h", "before": "0" * 64}
    entry["after"] = outside.sha256_file(header)
    index = {"schema": 1, "folder": "hip", "files": {"info.h": entry}}
    write_json(record / "headers" / "0" / "headers.json", index)
    backup = {"backup": f"records/cpu-demo/{RUN_ID}/headers/0", "overlay": ""}
    rewrite(record, "run.json", lambda run: run["phases"][2]["facts"].update(backup))
    assert found(record, "toolkit headers").status == "ok"
    header.write_text("")
    assert found(record, "toolkit headers").status == "failed"


def stored(record: Path) -> Path:
    (tree,) = (root(record) / "work" / "sources").iterdir()
    return tree


def overlay(record: Path) -> Path:
    (tree,) = (root(record) / "work" / "overlays").iterdir()
    return tree


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    if (folder / "run.json").exists():
        reseal(folder)


@pytest.mark.parametrize(
    ("name", "change", "status", "said"),
    [
        (
            "source patches",
            lambda r: edit(r, "patches/02-rule-2.diff", "+    return 256", "+    return 255"),
            "failed",
            "3 diffs make tree ",
        ),
        (
            "source patches",
            lambda r: edit(r, "patches/series.mbox", "+    return 256", "+    return 255"),
            "failed",
            "they do not apply: ",
        ),
        (
            "source patches",
            lambda r: edit(r, "patches/01-rule-1.diff", "int norm", "int nrom"),
            "failed",
            "they do not apply: error: patch failed: src/norm.cu:1",
        ),
        ("source patches", lambda r: (r / "patches/03-rule-3.diff").unlink(), "failed", "2 diffs"),
        ("source patches", lambda r: shutil.rmtree(stored(r)), "unknown", "is not here: work/sou"),
        (
            "source patches",
            lambda r: edit(stored(r), "src/norm.cu", "1024", "512"),
            "unknown",
            "was edited",
        ),
        (
            "source patches",
            lambda r: (stored(r) / "more.cu").write_text(""),
            "unknown",
            "was edited",
        ),
        (
            "header patches",
            lambda r: edit(r, "patches/header-z-any.diff", "-int any", "-int an1"),
            "failed",
            "taken back they make",
        ),
        (
            "header patches",
            lambda r: edit(r, "patches/header-a-all.diff", "+int all_", "+int al1_"),
            "failed",
            "they do not apply",
        ),
        ("header patches", lambda r: shutil.rmtree(overlay(r)), "unknown", "are not here: work/ov"),
        (
            "header patches",
            lambda r: edit(overlay(r), "hip/info.h", "all_", "all"),
            "unknown",
            "were edited",
        ),
    ],
)
def test_diffs_have_to_make_the_recorded_tree_of_the_base(
    record: Path, name: str, change: Callable[[Path], Any], status: str, said: str
) -> None:
    change(record)
    check = found(record, name)
    assert check.status == status
    assert said in check.found
    assert check.remedy


def test_without_git_the_diffs_are_unknown(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert {found(record, f"{name} patches").status for name in ("source", "header")} == {"unknown"}


def test_a_diff_cannot_reach_out_of_the_tree(record: Path) -> None:
    (root(record) / "work" / "secret").write_text("1024\n")
    lines = "--- a/../../secret\n+++ b/../../secret\n@@ -1 +1 @@\n-1024\n+256\n"
    (record / "patches" / "01-rule-1.diff").write_text(lines)
    assert found(record, "source patches").status == "failed"
    assert (root(record) / "work" / "secret").read_text() == "1024\n"
