"""Unpacking an archive that is not trusted: nothing lands outside the folder it is given."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file, shown

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError)


def require_sha256(path: Path, expected: str, remove: bool, hint: str) -> str:
    """The file's SHA-256, which has to be `expected` when that is given.

    With `remove` a file with another digest is deleted before the KeyelabError.
    """
    found = sha256_file(path)
    if expected and found != expected.lower():
        if remove:
            path.unlink()
        gone = " (removed)" if remove else ""
        raise KeyelabError(
            f"expected sha256 {expected.lower()}, found {found} in {shown(path)}{gone}", hint
        )
    return found


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a tar or zip file into `folder`; returns its one top folder, or `folder`.

    Raises KeyelabError for another kind of file and for a member that would leave `folder`;
    then nothing of the archive stays.
    """
    folder.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        elif tarfile.is_tarfile(archive):
            _untar(archive, folder)
        else:
            raise KeyelabError(
                f"expected a .tar.gz or .zip archive, found another kind of file: {shown(archive)}",
                f"look at it: file {shown(archive)}",
            )
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, _DAMAGED):
            raise KeyelabError(
                f"expected a whole archive at {shown(archive)}, found: {error}",
                "get it again, and give its digest in archive_sha256",
            ) from None
        raise
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        links = {PurePosixPath(member.name) for member in members if member.issym()}
        for member in members:
            path = PurePosixPath(member.name)
            _refuse_escape(path, archive)
            if links.intersection(path.parents):
                raise _refusal(path, archive)
            if member.issym():
                _refuse_escape(path.parent / member.linkname, archive)
            elif member.islnk():
                _refuse_escape(PurePosixPath(member.linkname), archive)
            elif not (member.isfile() or member.isdir()):
                raise _refusal(path, archive)
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, members, filter="data")
        else:
            tar.extractall(folder, members)


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            _refuse_escape(PurePosixPath(info.filename), archive)
        packed.extractall(folder)
        for info in packed.infolist():
            if (info.external_attr >> 16) & stat.S_IXUSR and not info.is_dir():
                (folder / info.filename).chmod(0o755)


def _refuse_escape(path: PurePosixPath, archive: Path) -> None:
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if part == "/" or depth < 0:
            raise _refusal(path, archive)


def _refusal(path: PurePosixPath, archive: Path) -> KeyelabError:
    return KeyelabError(
        f"expected files inside the archive {shown(archive)}, found {str(path)!r}: refused",
        "get the archive from its publisher, and give its digest in archive_sha256",
    )
