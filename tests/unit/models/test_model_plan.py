"""The plan says what is there, what has to come, and refuses what is unfinished."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError, ProgramMissing, UsageError
from keyelab.models import hub, plan
from keyelab.params import ModelFetch

MODEL, MMPROJ = "keye.gguf", "mmproj-keye.gguf"


def params(**values: Any) -> ModelFetch:
    return ModelFetch(**{"model_file": MODEL, "mmproj_file": MMPROJ, **values})


def client(folder: Path, name: str) -> dict[str, str]:
    """An environment whose PATH holds a client of that name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(folder)}


def listed(monkeypatch: pytest.MonkeyPatch, *sizes: int | None) -> None:
    names = (MODEL, MMPROJ)
    content = {name: hub.Listed(size, None) for name, size in zip(names, sizes, strict=True)}
    monkeypatch.setattr(hub, "listing", lambda *_: content)


def test_files_on_this_machine_are_used_where_they_are(tmp_path: Path) -> None:
    for name in (MODEL, MMPROJ):
        (tmp_path / name).write_bytes(b"GGUF")
    todo = plan.make(params(source="path", model_dir=str(tmp_path)), Path("work"), {})
    assert (todo.missing, todo.command) == ((), ())
    assert todo.model == tmp_path / MODEL
    assert plan.space_check(todo).status == "ok"
    assert plan.command_line(todo).startswith("# nothing to download")


@pytest.mark.parametrize("given", [{"model_dir": "/opt/models"}, {"repo": "a/b"}])
def test_the_packaged_model_is_not_taken_for_one_that_was_named(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="found model_dir or repo set"):
        plan.make(ModelFetch(**given), Path("work"), {})


def test_path_without_a_folder_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="empty model_dir"):
        plan.make(params(source="path"), Path("work"), {})


def test_a_missing_file_says_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "keye-q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(KeyelabError, match=r"mmproj-keye.gguf .* found only keye-q4.gguf"):
        plan.make(params(source="path", model_dir=str(tmp_path)), Path("work"), {})


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="no such folder"):
        plan.make(params(source="path", model_dir=str(tmp_path / "no")), Path("work"), {})


@pytest.mark.parametrize("end", [".incomplete", ".part", ".aria2", "_0_163840000"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_unfinished_download_is_refused(tmp_path: Path, end: str, whole: bool) -> None:
    if whole:
        for name in (MODEL, MMPROJ):
            (tmp_path / name).write_bytes(b"GGUF")
    (tmp_path / (MODEL + end)).write_bytes(b"GGUF")
    os.utime(tmp_path / (MODEL + end), (1, 1))
    with pytest.raises(KeyelabError, match=f"found {MODEL}{end}") as caught:
        plan.make(params(source="path", model_dir=str(tmp_path)), Path("work"), {})
    assert "rm " in caught.value.hint
    assert (tmp_path / (MODEL + end)).exists()


def test_a_download_that_is_still_written_to_says_so(tmp_path: Path) -> None:
    (tmp_path / (MODEL + ".incomplete")).write_bytes(b"GGUF")
    with pytest.raises(KeyelabError, match="written to a moment ago") as caught:
        plan.make(params(source="path", model_dir=str(tmp_path)), Path("work"), {})
    assert caught.value.hint.startswith("wait for that download")


@pytest.mark.parametrize("repo", ["", "keye", "a/b/c", "https://host/a/b"])
def test_a_hub_needs_owner_and_name(repo: str) -> None:
    with pytest.raises(UsageError, match="owner/name"):
        plan.make(params(source="modelscope", repo=repo), Path("work"), {"PATH": ""})


def test_a_hub_download_goes_to_the_work_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, 57_000_000_000, 1_000_000_000)
    env = client(tmp_path / "bin", "modelscope")
    todo = plan.make(params(source="modelscope", repo="Kwai-Keye/K"), tmp_path / "work", env)
    assert todo.folder == tmp_path / "work/models/Kwai-Keye/K"
    assert todo.missing == (MODEL, MMPROJ)
    assert todo.need_bytes == 58_000_000_000
    assert not todo.folder.exists()


def test_modelscope_gets_include_so_that_it_checks_what_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, 1, 1)
    env = client(tmp_path / "bin", "modelscope")
    todo = plan.make(
        params(source="modelscope", repo="a/b", revision="v1", model_dir="/opt/models/k"),
        tmp_path,
        env,
    )
    assert plan.command_line(todo) == (
        "modelscope download --model a/b --revision v1 "
        "--include keye.gguf mmproj-keye.gguf --local_dir /opt/models/k"
    )
    assert todo.origin == "modelscope a/b@v1"


@pytest.mark.parametrize("name", ["hf", "huggingface-cli"])
def test_hugging_face_has_two_client_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    listed(monkeypatch, 1, 1)
    env = client(tmp_path / "bin", name)
    monkeypatch.setattr(hub.sys, "executable", str(tmp_path / "python"))
    todo = plan.make(params(source="huggingface", repo="a/b", model_dir="/m"), tmp_path, env)
    assert plan.command_line(todo) == (
        f"{name} download a/b keye.gguf mmproj-keye.gguf --local-dir /m"
    )


@pytest.mark.parametrize(
    ("source", "package"), [("modelscope", "modelscope"), ("huggingface", "huggingface_hub")]
)
def test_a_missing_client_gives_the_pip_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, package: str
) -> None:
    monkeypatch.setattr(hub.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ProgramMissing) as caught:
        plan.make(params(source=source, repo="a/b"), tmp_path, {"PATH": str(tmp_path)})
    assert f"-m pip install {package}" in caught.value.hint


def test_a_dry_run_does_not_ask_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> None:
        raise AssertionError("asked the hub")

    monkeypatch.setattr(hub, "listing", ask)
    env = client(tmp_path / "bin", "modelscope")
    todo = plan.make(params(source="modelscope", repo="a/b", dry_run=True), tmp_path, env)
    assert todo.need_bytes is None
    assert plan.space_check(todo).status == "unknown"


def test_files_that_are_there_need_neither_client_nor_hub(tmp_path: Path) -> None:
    for name in (MODEL, MMPROJ):
        (tmp_path / name).write_bytes(b"GGUF")
    chosen = params(source="modelscope", repo="a/b", model_dir=str(tmp_path))
    assert plan.make(chosen, tmp_path, {"PATH": ""}).missing == ()


def test_what_was_begun_counts_towards_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, 1000, 500)
    (tmp_path / (MODEL + ".incomplete")).write_bytes(b"x" * 400)
    env = client(tmp_path / "bin", "modelscope")
    chosen = params(source="modelscope", repo="a/b", model_dir=str(tmp_path))
    todo = plan.make(chosen, tmp_path, env)
    assert todo.need_bytes == 1100
    facts = {row["fact"]: row["value"] for row in plan.rows(todo)}
    assert facts["unfinished"] == "0.0 MB in 1 file"


def test_a_full_disk_is_a_failed_check_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, 57_000_000_000, 1_000_000_000)
    usage = shutil.disk_usage(tmp_path)._replace(free=20_000_000_000)
    monkeypatch.setattr(plan.shutil, "disk_usage", lambda _: usage)
    env = client(tmp_path / "bin", "modelscope")
    todo = plan.make(params(source="modelscope", repo="a/b"), tmp_path, env)
    item = plan.space_check(todo)
    assert item.status == "failed"
    assert item.expected.startswith("59.1 GB free")
    assert item.found == "20.0 GB free"
