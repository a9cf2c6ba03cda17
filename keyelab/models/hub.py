"""The two hubs that hold weights: what they list, and the client command that downloads.

ModelScope's client checks size and SHA-256 only with `--include` (snapshot mode), not for files
named one by one (modelscope 1.40.2 with modelscope-hub 0.5.1); so the command uses `--include`.
Both keep a file under another name until it is whole. ModelScope goes on in the middle of a file;
huggingface_hub 2.4.0 begins an unfinished file again (its temporary names are unique).
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import io
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError, ProgramMissing
from keyelab.files import shown

_NO_NETWORK = {
    r"name or service not known|failed to resolve|name resolution|no address assoc": "its name "
    "does not resolve",
    r"connection refused": "connection refused",
    r"network is unreachable|no route to host": "network is unreachable",
    r"timed? ?out": "no answer in time",
    r"proxyerror|tunnel connection failed": "the proxy refuses",
    r"connection (?:reset|aborted)|remote end closed|incomplete ?read": "connection lost",
    r"connecterror|networkerror|max retries exceeded": "connection failed",
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\[\d+m")


@dataclass(frozen=True)
class Listed:
    """A file as the hub lists it; None is what it does not tell."""

    size_bytes: int | None
    sha256: str | None


@dataclass(frozen=True)
class Hub:
    """A hub: its name, its Python package, and the names its client goes by."""

    title: str
    package: str
    programs: tuple[str, ...]


HUBS = {
    "modelscope": Hub("ModelScope", "modelscope", ("modelscope",)),
    "huggingface": Hub("Hugging Face", "huggingface_hub", ("hf", "huggingface-cli")),
}


def command(
    source: str,
    repo: str,
    revision: str,
    names: Iterable[str],
    folder: Path,
    env: Mapping[str, str],
) -> tuple[str, ...]:
    """The client's argv for the named files; raises ProgramMissing with the pip command."""
    program = _client(HUBS[source], env)
    at = ["--revision", revision] if revision else []
    if source == "modelscope":
        words = ["download", "--model", repo, *at, "--include", *names, "--local_dir", str(folder)]
    else:
        words = ["download", repo, *names, *at, "--local-dir", str(folder)]
    return (program, *words)


def listing(
    source: str, repo: str, revision: str, needed: Iterable[str], also: Iterable[str] = ()
) -> dict[str, Listed]:
    """{name: Listed} of the files; empty when the client's Python package is not here.

    Raises KeyelabError when the hub cannot be reached, refuses, or lacks a needed file.
    """
    hub = HUBS[source]
    if importlib.util.find_spec(hub.package) is None:
        return {}
    read = _modelscope if source == "modelscope" else _huggingface
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            files = read(repo, revision)
    except Exception as error:  # each client has its own families, and changes them
        raise unreachable(source, repo, f"{type(error).__name__}: {error}") from None
    for name in needed:
        if name not in files:
            close = difflib.get_close_matches(name, files, n=1, cutoff=0.5)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            ggufs = [other for other in files if other.endswith(".gguf")]
            raise KeyelabError(
                f"expected {name} in {repo} on {hub.title}, found none{meant}",
                f"set model_file and mmproj_file to files it has: {' '.join(ggufs) or 'no .gguf'}",
            )
    return {name: files[name] for name in (*needed, *also) if name in files}


def unreachable(source: str, repo: str, said: str, log_tail: str = "") -> KeyelabError:
    """The one sentence for a hub that did not deliver, from what its client said."""
    title = HUBS[source].title
    said, log_tail = (" ".join(_COLOUR.sub("", text).split()) for text in (said, log_tail))
    for pattern, problem in _NO_NETWORK.items():
        if re.search(pattern, f"{said} {log_tail}", re.IGNORECASE):
            return KeyelabError(
                f"expected {title} to be reachable for {repo}, found no network to it ({problem})",
                "set HTTPS_PROXY or go online and run this phase again; or copy the files to a "
                "folder by other means and set source: path, model_dir: FOLDER",
            )
    return KeyelabError(
        f"expected {title} to deliver {repo}, found: {said[:300]}",
        "check repo, revision and access rights (log in with the client), then run it again",
    )


def _client(hub: Hub, env: Mapping[str, str]) -> str:
    # the environment that runs this notebook need not be activated
    path = f"{env.get('PATH', '')}:{Path(sys.executable).parent}"
    for name in hub.programs:
        if found := shutil.which(name, path=path):
            return found
    raise ProgramMissing(
        f"expected the {hub.title} client ({' or '.join(hub.programs)}) on PATH, found none",
        f"{shown(sys.executable)} -m pip install {hub.package}, or keyelab with its extra [models]",
    )


def _huggingface(repo: str, revision: str) -> dict[str, Listed]:
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo, revision=revision or None, files_metadata=True)
    return {
        entry.rfilename: Listed(entry.size, entry.lfs["sha256"] if entry.lfs else None)
        for entry in info.siblings or []
    }


def _modelscope(repo: str, revision: str) -> dict[str, Listed]:
    at = {"revision": revision} if revision else {}
    if importlib.util.find_spec("modelscope_hub"):
        # the get_model_files of modelscope 1.40 leaves the digests out
        files = importlib.import_module("modelscope_hub").HubApi().list_repo_files
        return {e.path: Listed(e.size, e.sha256) for e in files(repo, "model", **at)}
    from modelscope.hub.api import HubApi

    rows: list[dict[str, Any]] = HubApi().get_model_files(repo, recursive=True, **at)
    return {row["Path"]: Listed(row.get("Size"), row.get("Sha256") or None) for row in rows}
