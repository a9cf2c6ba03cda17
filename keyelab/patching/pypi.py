"""A source distribution from the package index, through pip."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from keyelab.errors import CommandFailed, KeyelabError
from keyelab.files import sha256_file
from keyelab.patching.archive import require_sha256
from keyelab.shell import quoted, run

OnProgress = Callable[[float | None, str], None]


def cached(package: str, version: str, sha256: str, downloads: Path) -> Path | None:
    """The archive in `downloads`, if its name fits and its digest is `sha256`."""
    for path in _archives(package, version, downloads):
        if sha256 and sha256_file(path) == sha256.lower():
            return path
    return None


def download(
    package: str,
    version: str,
    sha256: str,
    downloads: Path,
    on_progress: OnProgress,
    log: Path | None = None,
) -> Path:
    """Fetch the source distribution into `downloads`, or take it from there.

    The index is the one that pip is set up with. Raises KeyelabError when there is no network,
    no such version, or when the digest is another one (the file is removed).
    """
    hit = cached(package, version, sha256, downloads)
    if hit:
        return hit
    downloads.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".pip-", dir=downloads))
    what = ["--no-deps", "--no-binary", package, f"{package}=={version}"]
    try:
        on_progress(None, f"pip download {package}=={version}")
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        run([*pip, "--dest", partial, *what], log=log, timeout_s=1800)
        found = _archives(package, version, partial)
        if not found:
            raise KeyelabError(
                f"expected a source distribution of {package} {version} from pip, found none",
                "pick another version, or use source: archive with a file you have",
            )
        hint = "it is not the pinned release: check archive_sha256 and the package index"
        require_sha256(found[0], sha256, remove=True, hint=hint)
        return found[0].replace(downloads / found[0].name)
    except CommandFailed as error:
        raise KeyelabError(
            f"expected {package} {version} from the package index, found: {_cause(error)}",
            "check the network or proxy, then by hand: "
            + quoted(["python", "-m", "pip", "download", *what]),
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _archives(package: str, version: str, folder: Path) -> list[Path]:
    name = re.sub(r"[-_.]+", "[-_.]", package) + "-" + re.escape(version)
    pattern = re.compile(rf"(?i){name}\.(tar\.gz|zip)")
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in entries if pattern.fullmatch(path.name)]


def _cause(error: CommandFailed) -> str:
    text = error.message
    if "No matching distribution" in text or "Could not find a version" in text:
        return "no such release there, or no network to it"
    return text
