"""The plan says what is there and what has to come; a client (a small script) brings it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError, UsageError
from keyelab.models import digest, fetch, hub
from keyelab.params import ModelFetch

MODEL, MMPROJ = "keye.gguf", "mmproj-keye.gguf"
REFUSED = "NewConnectionError: [Errno 111] Connection refused"


def params(source: str = "modelscope", repo: str = "a/b", **values: Any) -> ModelFetch:
    given = {"source": source, "repo": repo, "model_file": MODEL, "mmproj_file": MMPROJ}
    return ModelFetch(**{**given, **values})


def there(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"GGUF")
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH holds both clients."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("modelscope", "hf"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def listed(monkeypatch: pytest.MonkeyPatch, *sizes: int | None) -> None:
    names = (MODEL, MMPROJ, "README.md")
    content = {name: hub.Listed(size, None) for name, size in zip(names, sizes, strict=False)}
    monkeypatch.setattr(hub, "listing", lambda *_: content)


def test_files_on_this_machine_are_used_where_they_are(tmp_path: Path) -> None:
    there(tmp_path, MODEL, MMPROJ)
    todo = fetch.plan(params("path", "", model_dir=str(tmp_path)), Path("work"), {})
    assert (todo.missing, todo.command, todo.need_bytes) == ((), (), 0)
    assert todo.model == tmp_path / MODEL
    assert fetch.command_line(todo).startswith("# nothing to download")


def test_the_packaged_model_is_used_in_place() -> None:
    assert fetch.plan(ModelFetch(), Path("work"), {}).folder == fetch.PACKAGED


@pytest.mark.parametrize(
    ("source", "values", "needed"),
    [
        ("packaged", {"model_dir": "/opt/models", "repo": ""}, "neither model_dir nor repo"),
        ("packaged", {"repo": "a/b"}, "neither model_dir nor repo"),
        ("path", {}, "model_dir"),
        ("modelscope", {"repo": ""}, "owner/name"),
        ("modelscope", {"repo": "keye"}, "owner/name"),
        ("huggingface", {"repo": "https://host/a/b"}, "owner/name"),
    ],
)
def test_parameters_that_do_not_go_together_are_a_usage_error(
    source: str, values: dict[str, str], needed: str
) -> None:
    with pytest.raises(UsageError, match=f"source '{source}' needs {'.*'}{needed}"):
        fetch.plan(params(source, **values), Path("work"), {"PATH": ""})


def test_a_missing_file_says_what_is_there_instead(tmp_path: Path) -> None:
    there(tmp_path, "keye-q4.gguf")
    with pytest.raises(KeyelabError, match=r"and mmproj-keye.gguf .* found keye-q4.gguf"):
        fetch.plan(params("path", model_dir=str(tmp_path)), Path("work"), {})
    with pytest.raises(KeyelabError, match=r"found no .gguf"):
        fetch.plan(params("path", model_dir=str(tmp_path / "no")), Path("work"), {})


@pytest.mark.parametrize("end", [".incomplete", ".part", ".aria2", "_0_163840000"])
@pytest.mark.parametrize("whole", [(), (MODEL, MMPROJ)])
def test_an_unfinished_download_is_refused_and_left(
    tmp_path: Path, end: str, whole: tuple[str, ...]
) -> None:
    there(tmp_path, MODEL + end, *whole)
    with pytest.raises(KeyelabError, match=f"found {MODEL}{end}") as caught:
        fetch.plan(params("path", model_dir=str(tmp_path)), Path("work"), {})
    assert "rm " in caught.value.hint
    assert (tmp_path / (MODEL + end)).exists()


def test_a_file_with_a_longer_name_is_no_unfinished_download(tmp_path: Path) -> None:
    there(tmp_path, MODEL, MMPROJ, MODEL + ".sha256")
    assert fetch.plan(params("path", model_dir=str(tmp_path)), Path("work"), {}).missing == ()


def test_a_hub_download_goes_to_the_work_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    listed(monkeypatch, 570_000, 10_000, 7)
    todo = fetch.plan(params(repo="Kwai-Keye/K"), tmp_path / "work", env)
    assert todo.folder == tmp_path / "work/models/Kwai-Keye/K"
    assert todo.missing == (MODEL, MMPROJ)
    assert list(todo.listed) == [MODEL, MMPROJ]
    assert todo.need_bytes == 580_000
    assert not todo.folder.exists()


@pytest.mark.parametrize(
    ("source", "line"),
    [
        # only with --include does ModelScope's client check what it brings
        (
            "modelscope",
            "modelscope download --model a/b --revision v1 --include keye.gguf mmproj-keye.gguf "
            "--local_dir /opt/k",
        ),
        (
            "huggingface",
            "hf download a/b keye.gguf mmproj-keye.gguf --revision v1 --local-dir /opt/k",
        ),
    ],
)
def test_the_command_is_one_to_paste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], source: str, line: str
) -> None:
    listed(monkeypatch, 1, 1)
    todo = fetch.plan(params(source, revision="v1", model_dir="/opt/k"), tmp_path, env)
    assert fetch.command_line(todo) == line
    assert todo.origin == f"{source} a/b@v1"


def test_a_dry_run_does_not_ask_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    monkeypatch.setattr(hub, "listing", lambda *_: pytest.fail("asked the hub"))
    todo = fetch.plan(params(dry_run=True), tmp_path, env)
    assert todo.need_bytes is None
    assert {"fact": "size of that", "value": "unknown"} in fetch.rows(todo)


def test_files_that_are_there_need_neither_client_nor_hub(tmp_path: Path) -> None:
    there(tmp_path, MODEL, MMPROJ)
    assert fetch.plan(params(model_dir=str(tmp_path)), tmp_path, {"PATH": ""}).missing == ()


def test_what_was_begun_counts_towards_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    listed(monkeypatch, 1000, 500)
    (tmp_path / (MODEL + ".incomplete")).write_bytes(b"x" * 400)
    assert fetch.plan(params(model_dir=str(tmp_path)), tmp_path, env).need_bytes == 1100


def test_a_full_disk_stops_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    listed(monkeypatch, 57_000_000_000, 1_000_000_000)
    usage = shutil.disk_usage(tmp_path)._replace(free=20_000_000_000)
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(KeyelabError, match=r"expected 59.1 GB free .* found 20.0 GB"):
        fetch.plan(params(), tmp_path, env)


BRING = f"""
for name in ({MODEL!r}, {MMPROJ!r}):
    (to / name).write_bytes(b"GGUF")
    print("got", name, flush=True)
"""


def todo(folder: Path, body: str) -> fetch.Plan:
    """A plan whose client runs `body` in Python."""
    path = folder / "client.py"
    path.write_text(f"import pathlib, sys\nto = pathlib.Path(sys.argv[-1])\n{body}\n")
    return fetch.Plan(
        origin="modelscope a/b",
        folder=folder / "models",
        names=(MODEL, MMPROJ),
        missing=(MODEL, MMPROJ),
        command=(sys.executable, str(path), str(folder / "models")),
        listed={MODEL: hub.Listed(4, "1" * 64), MMPROJ: hub.Listed(None, None)},
        need_bytes=8,
        free_bytes=2**40,
    )


def obtain(planned: fetch.Plan, tmp_path: Path) -> list[str]:
    told: list[str] = []
    fetch.obtain(planned, {}, tmp_path / "log.txt", lambda _, text: told.append(text))
    return told


def test_what_the_client_brings_is_there_with_the_hubs_digests_and_its_words(
    tmp_path: Path,
) -> None:
    planned = todo(tmp_path, BRING)
    assert obtain(planned, tmp_path) == ["got keye.gguf", "got mmproj-keye.gguf"]
    assert planned.model.read_bytes() == b"GGUF"
    assert "got keye.gguf" in (tmp_path / "log.txt").read_text()
    assert digest.read_sums(planned.folder) == {MODEL: "1" * 64}


def test_a_file_that_came_whole_in_an_earlier_attempt_is_checked_too(tmp_path: Path) -> None:
    planned = replace(todo(tmp_path, BRING), missing=(MMPROJ,))
    obtain(planned, tmp_path)
    assert digest.read_sums(planned.folder) == {MODEL: "1" * 64}


def test_nothing_is_run_when_both_files_are_there(tmp_path: Path) -> None:
    planned = replace(todo(tmp_path, "raise SystemExit(9)"), missing=())
    assert obtain(planned, tmp_path) == ["both files are there"]


def test_no_network_is_one_sentence_with_the_log_and_a_way_out(tmp_path: Path) -> None:
    body = f"print({REFUSED!r}); print('Suggestion: check'); raise SystemExit(1)"
    with pytest.raises(KeyelabError) as caught:
        obtain(todo(tmp_path, body), tmp_path)
    message = caught.value.message
    assert "expected files from modelscope a/b, found no network: " in message
    assert "Connection refused; log: " in message
    assert "source: path" in caught.value.hint
    assert list((tmp_path / "models").iterdir()) == []


def test_an_old_failure_in_the_log_is_not_this_ones_cause(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(REFUSED + "\n")
    body = "print('error: integrity check failed'); raise SystemExit(1)"
    with pytest.raises(KeyelabError, match="integrity check failed") as caught:
        obtain(todo(tmp_path, body), tmp_path)
    assert "no network" not in caught.value.message


def test_a_client_that_leaves_a_part_has_not_delivered(tmp_path: Path) -> None:
    body = BRING + f"(to / {MODEL + '.incomplete'!r}).write_bytes(b'G')"
    with pytest.raises(KeyelabError, match=r"found keye.gguf.incomplete"):
        obtain(todo(tmp_path, body), tmp_path)


def test_phase_modules_import_without_the_optional_packages() -> None:
    code = "import sys; sys.modules.update(modelscope=None, huggingface_hub=None, gguf=None); "
    code += "from keyelab.models import digest, fetch, header, pairing"
    subprocess.run([sys.executable, "-c", code], check=True)
