"""A video from a URL: whole or not there, within a limit, named by its content.

What a URL carries besides its path may be a key: passwords are refused, queries never shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import shown

_CONNECT_S, _SILENT_S = 20, 60
_MIB = 2**20
_HINT = "download it yourself and set video_test.video to the file"


def download(url: str, folder: Path, *, max_mib: int) -> Path:
    """Fetch a URL into `folder` as <name>-<16 digits of its SHA-256><suffix>.

    Raises UsageError for a URL with a password, KeyelabError when it cannot be had: no answer, an
    error, a web page, more than `max_mib` MiB, a connection that breaks, no room on the disk.
    """
    import requests

    name = _public(url)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".download.")
    part = Path(temporary)
    digest = hashlib.sha256()
    size_bytes = 0
    try:
        with os.fdopen(descriptor, "wb") as stream, _answer(url, name, max_mib) as answer:
            for chunk in answer.iter_content(_MIB):
                size_bytes += len(chunk)
                if size_bytes > max_mib * _MIB:
                    raise _too_large(name, f"more than {max_mib} MiB", max_mib)
                digest.update(chunk)
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        target = folder / _file_name(url, digest.hexdigest())
        part.chmod(0o644)
        part.replace(target)
    except requests.RequestException as error:
        raise KeyelabError(
            f"expected a video at {name}, {_broken(error, size_bytes)}", _HINT
        ) from None
    except OSError as error:
        raise KeyelabError(
            f"expected room for {name} in {shown(folder)}, found: {error.strerror}", "df -h"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target


@contextlib.contextmanager
def _answer(url: str, name: str, max_mib: int) -> Iterator[Any]:
    """The server's answer, when it can be the video."""
    import requests

    # no compression: the length that is announced is the length that comes
    words = {"Accept-Encoding": "identity", "User-Agent": "keyelab"}
    with requests.get(url, stream=True, timeout=(_CONNECT_S, _SILENT_S), headers=words) as answer:
        if answer.status_code != 200:
            raise KeyelabError(
                f"expected a video at {name}, found HTTP {answer.status_code} {answer.reason}",
                "put user and password for the host into ~/.netrc, which is used"
                if answer.status_code in (401, 403, 407)
                else "open the address in a browser: is it the file's own?",
            )
        kind = answer.headers.get("Content-Type", "").split(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml"):
            raise KeyelabError(
                f"expected a video at {name}, found a web page ({kind})",
                "set video_test.video to the address of the file itself, not of a page about it",
            )
        length = answer.headers.get("Content-Length", "")
        if length.isdigit() and int(length) > max_mib * _MIB:
            raise _too_large(name, f"{int(length) / _MIB:.1f} MiB", max_mib)
        yield answer


def _public(url: str) -> str:
    """The URL as messages show it: no password, no query."""
    parts = urlsplit(url)
    try:
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    except ValueError:
        host = None
    if not host:
        raise UsageError(
            f"video_test.video: expected {parts.scheme}://HOST/PATH, found no host in it",
            "example: video: https://example.org/clip.mp4",
        )
    if parts.username is not None:
        raise UsageError(
            f"video_test.video: expected {parts.scheme}://{host}/… without a user name or password",
            "put them into ~/.netrc, which is used: parameters are kept in the record",
        )
    return f"{parts.scheme}://{host}{parts.path}"


def _file_name(url: str, digest: str) -> str:
    file = Path(unquote(urlsplit(url).path).rpartition("/")[2])
    stem = re.sub(r"[^\w-]+", "-", file.stem).strip("-")[:60]
    suffix = file.suffix if re.fullmatch(r"\.\w{1,5}", file.suffix) else ""
    return f"{stem or 'video'}-{digest[:16]}{suffix}"


def _too_large(name: str, found: str, max_mib: int) -> KeyelabError:
    return KeyelabError(
        f"expected at most {max_mib} MiB at {name}, found {found}",
        "raise video_test.max_download_mib, or set video_test.video to a file",
    )


def _broken(error: Exception, size_bytes: int) -> str:
    """What went wrong, without the library's words: they show the whole address."""
    from requests import exceptions

    if isinstance(error, exceptions.TooManyRedirects):
        return "found redirects without an end"
    if isinstance(error, exceptions.InvalidSchema):
        return "found a redirect to something that is not http or https"
    if isinstance(error, exceptions.SSLError):
        return "found a certificate that cannot be trusted"
    if isinstance(error, exceptions.ConnectTimeout):
        return f"found no answer within {_CONNECT_S} s"
    if "timed out" in str(error):
        return f"found {size_bytes / _MIB:.1f} MiB and then silence for {_SILENT_S} s"
    if size_bytes or isinstance(error, exceptions.ChunkedEncodingError):
        return f"the connection broke after {size_bytes / _MIB:.1f} MiB"
    return "found no server there"
