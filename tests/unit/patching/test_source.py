"""Obtaining a tree: by package, repository, path and archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from keyelab import shell
from keyelab.errors import CommandFailed, KeyelabError, UsageError
from keyelab.files import sha256_file, sha256_tree
from keyelab.params import SourcePatch
from keyelab.patching import fetch
from keyelab.patching.source import Source, in_cache, obtain


def quiet(fraction: float | None, text: str) -> None:
    """Progress that nobody watches."""


def tree(folder: Path, content: str = "one") -> Path:
    (folder / "ggml").mkdir(parents=True)
    (folder / "ggml" / "CMakeLists.txt").write_text(content + "\n", encoding="utf-8")
    (folder / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    return folder


def get(workdir: Path, **values: Any) -> Source:
    return obtain(SourcePatch(**values), workdir, quiet)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    tree(tmp_path / "pack" / "demo-1.0" / "llama.cpp")
    path = tmp_path / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path / "pack" / "demo-1.0", "demo-1.0")
    return path


Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    repository = tree(tmp_path / "repository")
    names = {
        f"GIT_{who}_{what}": "nobody"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    env = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull}

    def call(*words: str) -> str:
        argv = ["git", "-c", "init.defaultBranch=main", *words]
        done = subprocess.run(
            argv, cwd=repository, env=env, check=True, timeout=60, capture_output=True, text=True
        )
        return done.stdout.strip()

    call("init", "--quiet")
    call("add", ".")
    call("commit", "--quiet", "-m", "one")
    call("tag", "-a", "b1", "-m", "b1")
    (repository / "ggml" / "CMakeLists.txt").write_text("two\n", encoding="utf-8")
    call("commit", "--quiet", "-am", "two")
    return call


def content(source: Source) -> str:
    return (source.tree / "ggml" / "CMakeLists.txt").read_text(encoding="utf-8").strip()


def test_a_path_is_copied_without_its_repository_and_never_edited(tmp_path: Path) -> None:
    start = tree(tmp_path / "mine")
    (start / ".git").mkdir()
    (start / ".git" / "HEAD").write_text("x", encoding="utf-8")
    before = sha256_tree(start)
    source = get(tmp_path / "work", source="path", source_path=str(start))
    assert source.tree == tmp_path / "work" / "sources" / source.sha256[:12]
    assert sha256_tree(source.tree) == source.sha256 == before
    assert not (source.tree / ".git").exists()


def test_an_archive_is_unpacked_once_and_then_taken_from_the_cache(
    tmp_path: Path, archive: Path
) -> None:
    wanted = {
        "source": "archive",
        "archive": str(archive),
        "archive_sha256": sha256_file(archive),
    }
    first = get(tmp_path / "work", **wanted)
    assert not first.cached
    assert content(first) == "one"
    assert os.access(first.tree / "run.sh", os.X_OK)
    archive.unlink()
    again = get(tmp_path / "work", **wanted)
    assert again.cached
    assert again.tree == first.tree
    assert [p.name for p in (tmp_path / "work" / "sources").iterdir() if p.is_dir()] == [
        first.tree.name
    ]


def test_an_archive_with_another_digest_gives_both_and_is_kept(
    tmp_path: Path, archive: Path
) -> None:
    with pytest.raises(KeyelabError, match=f"expected sha256 {'1' * 64}, found"):
        get(tmp_path / "work", source="archive", archive=str(archive), archive_sha256="1" * 64)
    assert archive.exists()
    assert list((tmp_path / "work" / "sources").iterdir()) == []


def test_a_wrong_subdir_tells_what_is_inside(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(KeyelabError, match=r"expected a folder 'vendor'.*found llama\.cpp"):
        get(
            tmp_path / "work",
            source="archive",
            archive=str(archive),
            archive_sha256="",
            subdir="vendor",
        )


def test_a_folder_that_is_no_llama_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme").write_text("x", encoding="utf-8")
    with pytest.raises(KeyelabError, match=r"expected a llama\.cpp tree.*found readme"):
        get(tmp_path / "work", source="path", source_path=str(tmp_path / "other"))


def test_a_pristine_tree_that_was_edited_is_refused(tmp_path: Path, archive: Path) -> None:
    wanted = {"source": "archive", "archive": str(archive), "archive_sha256": sha256_file(archive)}
    first = get(tmp_path / "work", **wanted)
    (first.tree / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(KeyelabError, match="it was edited") as caught:
        get(tmp_path / "work", **wanted)
    assert "rm -r" in caught.value.hint


@pytest.mark.parametrize("name", ["source_path", "archive", "git_url"])
def test_a_missing_value_is_a_usage_error_that_names_the_parameter(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match=rf"source_patch\.{name}"):
        get(tmp_path / "work", source=name.split("_")[-1].replace("url", "git"))


@pytest.mark.parametrize(
    ("ref", "expected"),
    [("main", "two"), ("b1", "one"), ("main~1", "one"), ("main~1 short", "one")],
)
def test_git_takes_a_branch_a_tag_and_a_commit_also_a_short_one(
    tmp_path: Path, git: Git, ref: str, expected: str
) -> None:
    name = ref.removesuffix(" short")
    commit = git("rev-parse", f"{name}^{{commit}}")
    asked = {"main~1": commit, "main~1 short": commit[:7]}.get(ref, ref)
    url = (tmp_path / "repository").as_uri()
    source = get(tmp_path / "work", source="git", git_url=url, git_ref=asked)
    assert content(source) == expected
    assert source.version == commit
    assert not (source.tree / ".git").exists()


def test_git_with_a_full_commit_needs_no_repository_the_second_time(
    tmp_path: Path, git: Git
) -> None:
    commit = git("rev-parse", "main")
    url = (tmp_path / "repository").as_uri()
    get(tmp_path / "work", source="git", git_url=url, git_ref="main")
    shutil.rmtree(tmp_path / "repository")
    assert get(tmp_path / "work", source="git", git_url=url, git_ref=commit).cached
    with pytest.raises(KeyelabError, match="expected 'main' from the repository") as caught:
        get(tmp_path / "work", source="git", git_url=url, git_ref="main")
    assert "git ls-remote" in caught.value.hint


def test_git_names_an_unknown_ref(tmp_path: Path, git: Git) -> None:
    url = (tmp_path / "repository").as_uri()
    with pytest.raises(KeyelabError, match="expected 'mian' from the repository"):
        get(tmp_path / "work", source="git", git_url=url, git_ref="mian")
    assert list((tmp_path / "work" / "sources").iterdir()) == []


def fake_pip(archive: Path) -> Callable[..., None]:
    def run(argv: Sequence[str | Path], **options: Any) -> None:
        words = [str(word) for word in argv]
        if words[0] == "tar":
            shell.run(argv, **options)
            return
        assert words[1:4] == ["-m", "pip", "download"]
        assert not [word for word in words if "://" in word], "the index is pip's own"
        shutil.copy(archive, Path(words[words.index("--dest") + 1]) / archive.name)

    return run


def test_a_package_is_fetched_once_and_checked(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "run", fake_pip(archive))
    wanted = {"package": "demo", "version": "1.0", "archive_sha256": sha256_file(archive)}
    source = get(tmp_path / "work", **wanted)
    assert source.version == "1.0"
    assert source.origin.startswith("pypi demo 1.0 sha256:")
    monkeypatch.setattr(fetch, "run", fake_pip(tmp_path / "no more"))
    shutil.rmtree(tmp_path / "work" / "sources")
    assert get(tmp_path / "work", **wanted).sha256 == source.sha256
    with pytest.raises(FileNotFoundError):  # another version is asked of pip, whatever the digest
        get(tmp_path / "work", **{**wanted, "version": "2.0"})


def test_a_package_with_another_digest_gives_both_and_leaves_nothing(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "run", fake_pip(archive))
    found = sha256_file(archive)
    with pytest.raises(KeyelabError, match=f"expected sha256 {'2' * 64}, found {found}"):
        get(tmp_path / "work", package="demo", version="1.0", archive_sha256="2" * 64)
    assert list((tmp_path / "work" / "downloads").iterdir()) == []


def test_no_network_is_one_sentence_with_the_command_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(argv: Sequence[str | Path], **options: Any) -> None:
        raise CommandFailed(
            "python ended with exit status 1: ERROR: No matching distribution found for demo==1.0",
            "",
            returncode=1,
            log=None,
        )

    monkeypatch.setattr(fetch, "run", offline)
    with pytest.raises(
        KeyelabError, match=r"expected demo==1\.0 .* no such release or no network"
    ) as caught:
        get(tmp_path / "work", package="demo", version="1.0")
    assert "python -m pip download --no-deps --no-binary demo demo==1.0" in caught.value.hint


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index on this machine; the archive in it cannot be built, for want of a build backend."""
    folder = tmp_path / "index" / "simple" / "de-mo"
    tree(folder / "de_mo-1.0" / "llama.cpp")
    (folder / "de_mo-1.0" / "PKG-INFO").write_text(
        "Metadata-Version: 2.1\nName: de-mo\nVersion: 1.0\n", encoding="utf-8"
    )
    (folder / "de_mo-1.0" / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["no-such-package"]\nbuild-backend = "no_such"\n',
        encoding="utf-8",
    )
    with tarfile.open(folder / "de_mo-1.0.tar.gz", "w:gz") as tar:
        tar.add(folder / "de_mo-1.0", "de_mo-1.0")
    digest = sha256_file(folder / "de_mo-1.0.tar.gz")
    link = f'<a href="de_mo-1.0.tar.gz#sha256={digest}">de_mo-1.0.tar.gz</a>'
    (folder / "index.html").write_text(link, encoding="utf-8")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "index"))

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_address[1]}/simple/"
        for name, value in {
            "INDEX_URL": here, "EXTRA_INDEX_URL": "", "CONFIG_FILE": os.devnull, "NO_CACHE_DIR": "1"
        }.items():  # fmt: skip
            monkeypatch.setenv(f"PIP_{name}", value)
        yield folder / "de_mo-1.0.tar.gz"
        server.shutdown()


def test_a_package_that_pip_cannot_prepare_is_fetched_all_the_same(
    tmp_path: Path, index: Path
) -> None:
    digest = sha256_file(index)
    source = get(tmp_path / "work", package="de-mo", version="1.0", archive_sha256=digest)
    assert content(source) == "one"
    assert (tmp_path / "work" / "downloads" / index.name).read_bytes() == index.read_bytes()
    with pytest.raises(KeyelabError, match="found no such release or no network"):
        get(tmp_path / "other", package="de-mo", version="1.0", archive_sha256="")


def test_a_dry_run_looks_into_the_cache_only(tmp_path: Path) -> None:
    assert in_cache(SourcePatch(), tmp_path / "work") is None
    assert not (tmp_path / "work").exists()
