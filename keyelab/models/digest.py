"""Digests of the two files, and what they are compared with.

SHA256SUMS beside the weights keeps what the source told, for runs without a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from keyelab.checks import Check, check
from keyelab.errors import UsageError
from keyelab.facts import FileFact
from keyelab.files import sha256_file, shown, write_text
from keyelab.params import ModelFetch

SUMS = "SHA256SUMS"
_TELL_BYTES = 1 << 26


def expected(params: ModelFetch, folder: Path) -> dict[str, str]:
    """{role: digest}: the parameter's, else that of SHA256SUMS in `folder`; absent when unknown.

    Raises UsageError for a parameter that is no SHA-256.
    """
    beside = read_sums(folder)
    found = {
        "model": params.model_sha256.lower() or beside.get(params.model_file),
        "mmproj": params.mmproj_sha256.lower() or beside.get(params.mmproj_file),
    }
    for role, digest in found.items():
        if digest and not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise UsageError(
                f"model_fetch.{role}_sha256: expected 64 hex digits, found {digest!r}",
                "sha256sum FILE",
            )
    return {role: digest for role, digest in found.items() if digest}


def read(
    model: Path, mmproj: Path, on_progress: Callable[[float | None, str], None]
) -> dict[str, FileFact]:
    """{role: FileFact} of both files; reads them whole (57 GB take minutes)."""
    paths = {"model": model, "mmproj": mmproj}
    total = sum(path.stat().st_size for path in paths.values())
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if done // _TELL_BYTES > (done - count) // _TELL_BYTES or done == total:
            on_progress(done / total, f"{amount(done)} of {amount(total)}")

    return {
        role: FileFact(
            path=shown(path), sha256=sha256_file(path, on_bytes), size_bytes=path.stat().st_size
        )
        for role, path in paths.items()
    }


def checks(files: Mapping[str, FileFact], known: Mapping[str, str]) -> list[Check]:
    """A verdict for each file whose digest is known beforehand."""
    return [
        check(
            f"{role} digest",
            files[role].sha256 == digest,
            expected=digest,
            found=files[role].sha256,
            remedy=f"compare {role}_sha256 or {SUMS} with the source, or move "
            f"{files[role].path} away and fetch it again",
        )
        for role, digest in known.items()
    ]


def read_sums(folder: Path) -> dict[str, str]:
    """{file name: digest} of the folder's SHA256SUMS; empty when there is none."""
    path = folder / SUMS
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    lines = re.findall(r"^([0-9a-fA-F]{64}) [ *](.+)$", text, re.MULTILINE)
    return {name: digest.lower() for digest, name in lines}


def add_sums(folder: Path, digests: Mapping[str, str]) -> None:
    """Keep `digests` in the folder's SHA256SUMS; other files' stay."""
    merged = {**read_sums(folder), **digests}
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(merged.items()))
    write_text(folder / SUMS, text)


def amount(count: int | None) -> str:
    """Bytes as people say them: GB from 10⁹ up, MB below; 'unknown' for None."""
    if count is None:
        return "unknown"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
