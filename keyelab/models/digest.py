"""Digests of the two files, and what they are compared with."""

from __future__ import annotations

import re
from collections.abc import Callable

from keyelab.checks import Check, check
from keyelab.errors import UsageError
from keyelab.facts import FileFact
from keyelab.files import sha256_file, shown
from keyelab.models import sums
from keyelab.models.leftovers import amount
from keyelab.models.plan import Plan
from keyelab.params import ModelFetch

OnProgress = Callable[[float | None, str], None]
_TELL_BYTES = 1 << 26


def expected(params: ModelFetch, plan: Plan) -> dict[str, tuple[str, str]]:
    """{role: (digest, where it is from)}: the parameter, else SHA256SUMS beside the file.

    After a download SHA256SUMS holds what the hub lists. A role without a known digest is
    absent. Raises UsageError for a parameter that is no SHA-256.
    """
    beside = sums.read(plan.folder)
    found: dict[str, tuple[str, str]] = {}
    for role, name, given in (
        ("model", plan.model_name, params.model_sha256),
        ("mmproj", plan.mmproj_name, params.mmproj_sha256),
    ):
        if given and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
            raise UsageError(
                f"model_fetch.{role}_sha256: expected 64 hex digits, found {given!r}",
                f"sha256sum {name}",
            )
        if given:
            found[role] = given.lower(), f"{role}_sha256"
        elif name in beside:
            found[role] = beside[name], sums.NAME
    return found


def read(plan: Plan, on_progress: OnProgress) -> dict[str, FileFact]:
    """{role: FileFact} of model and mmproj; reads both files whole (57 GB take minutes)."""
    paths = {"model": plan.model, "mmproj": plan.mmproj}
    total = sum(path.stat().st_size for path in paths.values())
    done = told = 0

    def on_bytes(count: int) -> None:
        nonlocal done, told
        done += count
        if done - told >= _TELL_BYTES or done == total:
            told = done
            on_progress(done / total, f"{amount(done)} of {amount(total)}")

    return {
        role: FileFact(
            path=shown(path), sha256=sha256_file(path, on_bytes), size_bytes=path.stat().st_size
        )
        for role, path in paths.items()
    }


def rows(files: dict[str, FileFact], known: dict[str, tuple[str, str]]) -> list[dict[str, str]]:
    """Digests as a table, each with what it is compared with."""
    return [
        {
            "file": fact.path,
            "bytes": f"{fact.size_bytes:,}",
            "SHA-256": f"`{fact.sha256}`",
            "compared with": known[role][1] if role in known else "nothing: recorded only",
        }
        for role, fact in files.items()
    ]


def checks(files: dict[str, FileFact], known: dict[str, tuple[str, str]]) -> list[Check]:
    """A verdict for each file whose digest is known beforehand."""
    return [
        check(
            f"{role} digest",
            files[role].sha256 == digest,
            expected=f"{digest} ({where})",
            found=files[role].sha256,
            remedy=f"move {files[role].path} away and fetch it again",
        )
        for role, (digest, where) in known.items()
    ]
