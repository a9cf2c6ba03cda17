"""Bringing a llama.cpp tree into an empty folder: from a package, an archive, git or a path."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from keyelab import partial
from keyelab.errors import CommandFailed, KeyelabError
from keyelab.files import NOT_SOURCE, located, sha256_file, shown
from keyelab.params import SourcePatch
from keyelab.shell import quoted, run

OnProgress = Callable[[float | None, str], None]


def bring(
    params: SourcePatch, folder: Path, downloads: Path, on_progress: OnProgress, log: Path | None
) -> tuple[Path, str, str]:
    """Put the tree that the parameters name below `folder`; a path is copied, never edited.

    Returns the folder of the tree, where it came from, and its version or commit ('' unknown).
    """
    if params.source == "git":
        commit = check_out(params.git_url, params.git_ref, folder, on_progress, log)
        return folder, f"git {params.git_url} {params.git_ref} {commit[:12]}", commit
    if params.source == "path":
        start = located(params.source_path)
        if not start.is_dir():
            raise KeyelabError(f"expected a folder at {shown(start)}, found none")
        on_progress(None, f"copy {shown(start)}")
        skipped = shutil.ignore_patterns(*NOT_SOURCE)
        shutil.copytree(start, folder, symlinks=True, ignore=skipped, dirs_exist_ok=True)
        return folder, f"path {shown(start)}", ""
    if params.source == "pypi":
        archive = download(params, downloads, on_progress, log)
        origin, version = f"pypi {params.package} {params.version}", params.version
    else:
        archive = located(params.archive)
        origin, version = f"archive {shown(archive)}", ""
        if not archive.is_file():
            raise KeyelabError(f"expected an archive at {shown(archive)}, found none")
    digest = require_sha256(archive, params.archive_sha256)
    on_progress(None, f"unpack {archive.name}")
    tree = unpack(archive, folder, log) / params.subdir
    if not (tree.is_dir() and tree.resolve().is_relative_to(folder.resolve())):
        raise KeyelabError(
            f"expected a folder {params.subdir!r} in {archive.name}, found {inside(tree.parent)}",
            "set source_patch.subdir",
        )
    return tree, f"{origin} sha256:{digest[:12]}", version


def require_sha256(archive: Path, expected: str) -> str:
    """The file's SHA-256, which has to be `expected` when that is given."""
    found = sha256_file(archive)
    if expected and found != expected.lower():
        raise KeyelabError(
            f"expected sha256 {expected.lower()}, found {found} in {shown(archive)}",
            "get the pinned release, or set source_patch.archive_sha256 to the digest you trust",
        )
    return found


def unpack(archive: Path, folder: Path, log: Path | None = None) -> Path:
    """Unpack a tar or zip file; returns its one top folder, or `folder`.

    Nothing lands outside `folder`: tar refuses such a member, zipfile takes the way out of its
    name. Raises KeyelabError for another kind of file and for a damaged one.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
        else:
            # not tarfile: before Python 3.11.4 it follows ".." out of the folder
            run(["tar", "--no-same-owner", "-xf", archive, "-C", folder], log=log, timeout_s=600)
    except (CommandFailed, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise KeyelabError(
            f"expected a whole .tar.gz or .zip archive at {shown(archive)}, found: {error}",
            "get it again from its publisher, and give its digest in archive_sha256",
        ) from None
    found = list(folder.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else folder


def download(
    params: SourcePatch, downloads: Path, on_progress: OnProgress, log: Path | None
) -> Path:
    """The package's source distribution, fetched by pip or found in `downloads` by its digest.

    The index is the one that pip is set up with. Raises KeyelabError when there is no network or
    no such version, and when the digest is another one; then nothing is kept.
    """
    for path in downloads.glob(f"*-{params.version}.*"):
        if sha256_file(path) == params.archive_sha256.lower():
            return path
    release = f"{params.package}=={params.version}"
    pip = ["-m", "pip", "download", "--no-deps", "--no-binary", params.package, release]
    on_progress(None, f"pip download {release}")
    with partial.folder(downloads, ".pip-") as part:
        try:
            run([sys.executable, *pip, "--dest", part], log=log, timeout_s=1800)
            archive = next(part.iterdir())
        except CommandFailed as error:
            # pip also prepares a build of the package, which can fail where the archive is fine
            address = _address(params, [sys.executable, *pip, "--dest", str(part), "-vv"])
            if not (address and params.archive_sha256):
                raise KeyelabError(
                    f"expected {release} from the package index, found no such release or no "
                    f"network: {error.message}",
                    f"check the network or proxy, then by hand: {quoted(['python', *pip])}",
                ) from None
            on_progress(None, f"{release} without pip")
            archive = _get(address, part)
        require_sha256(archive, params.archive_sha256)
        return archive.replace(downloads / archive.name)


class _Named(Exception):
    """Stops pip once it has named the address."""


def _address(params: SourcePatch, pip: list[str]) -> str:
    """Where pip's index has the package's archive, '' unknown; pip is stopped when it says so."""
    name = "[-_.]+".join(re.split("[-_.]+", params.package))
    link = re.compile(rf"Found link (\S+/{name}-{re.escape(params.version)}\.(?:tar\.gz|zip))\b")

    def heard(line: str) -> None:
        found = link.search(line)
        if found:
            raise _Named(found.group(1))

    try:
        run(pip, timeout_s=600, on_line=heard, check=False)
    except _Named as named:
        return str(named)
    except CommandFailed:  # out of time
        pass
    return ""


def _get(address: str, folder: Path) -> Path:
    import requests

    path = folder / address.rsplit("/", 1)[-1]
    try:
        with requests.get(address, stream=True, timeout=60) as answer, path.open("wb") as stream:
            answer.raise_for_status()
            for chunk in answer.iter_content(1 << 20):
                stream.write(chunk)
    except requests.RequestException as error:
        raise KeyelabError(
            f"expected {path.name} from the package index, found: {type(error).__name__}",
            "check the network or proxy, and try again",
        ) from None
    return path


def check_out(
    url: str, ref: str, folder: Path, on_progress: OnProgress, log: Path | None = None
) -> str:
    """Put the files of a branch, tag or commit into `folder` and return the full commit.

    Only that commit is fetched where the server allows it; a shortened one needs the history.
    The `.git` folder is removed: a tree is known by its digest.
    """

    def git(*words: str) -> str:
        on_progress(None, f"git {words[0]} {ref}")
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        return run(["git", *words], cwd=folder, env=env, log=log, timeout_s=3600).output.strip()

    try:
        git("init", "--quiet")
        try:
            git("fetch", "--quiet", "--depth", "1", "--", url, ref)
            commit = git("rev-parse", "FETCH_HEAD^{commit}")
        except CommandFailed:
            if not re.fullmatch("[0-9a-f]{7,40}", ref):
                raise
            git("fetch", "--quiet", "--", url, "+refs/heads/*:refs/remotes/all/*")
            commit = git("rev-parse", f"{ref}^{{commit}}")
        git("checkout", "--quiet", "--detach", commit)
    except CommandFailed as error:
        raise KeyelabError(
            f"expected {ref!r} from the repository {url}, found: {error.message}",
            f"check the network or proxy, then the names it has: git ls-remote {url}",
        ) from None
    shutil.rmtree(folder / ".git")
    return commit


def inside(folder: Path) -> str:
    """The first names in a folder, for a message."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "") or "nothing"
