"""The two hubs that hold weights: what they list, and the client command that downloads.

ModelScope's client checks size and SHA-256 only with `--include`, not for files named one by one
(modelscope 1.40.2); so the command uses `--include`. Both clients keep a file under another name
until it is whole. ModelScope's goes on in the middle of a file, huggingface_hub 2.4.0 begins an
unfinished file again.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from keyelab.errors import KeyelabError, ProgramMissing
from keyelab.files import shown
from keyelab.params import ModelFetch

# source: (its client, the Python package that brings the client)
CLIENTS = {"modelscope": ("modelscope", "modelscope"), "huggingface": ("hf", "huggingface_hub")}
_OFFLINE = re.compile(r"name or service|resol|connect|refused|unreachable|time[d ]*out", re.I)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Listed:
    """A file as the hub lists it; None is what it does not tell."""

    size_bytes: int | None
    sha256: str | None


def origin(params: ModelFetch) -> str:
    """Source, repository and revision in one phrase."""
    return f"{params.source} {params.repo}{'@' if params.revision else ''}{params.revision}"


def command(
    params: ModelFetch, names: Collection[str], folder: Path, env: Mapping[str, str]
) -> tuple[str, ...]:
    """The client's argv for the named files; raises ProgramMissing with the pip command."""
    name, package = CLIENTS[params.source]
    # the environment that runs this notebook need not be activated
    program = shutil.which(name, path=f"{env.get('PATH', '')}:{Path(sys.executable).parent}")
    if program is None:
        raise ProgramMissing(
            f"expected the {params.source} client {name!r} on PATH, found none",
            f"{shown(sys.executable)} -m pip install -U {package}",
        )
    at = ["--revision", params.revision] if params.revision else []
    if params.source == "huggingface":
        return (program, "download", params.repo, *names, *at, "--local-dir", str(folder))
    repo = ["--model", params.repo, *at]
    return (program, "download", *repo, "--include", *names, "--local_dir", str(folder))


def listing(params: ModelFetch, needed: Collection[str]) -> dict[str, Listed]:
    """{name: Listed} of the repository; empty when the hub's Python package is not here.

    Raises KeyelabError when the hub cannot be reached, refuses, or lacks a needed file.
    """
    revision = params.revision or None
    try:
        if params.source == "modelscope":
            # comes with modelscope 1.40, whose own get_model_files leaves the digests out
            api = importlib.import_module("modelscope_hub").HubApi()
            entries = api.list_repo_files(params.repo, "model", revision=revision)
            files = {e.path: Listed(e.size, e.sha256) for e in entries}
        else:
            from huggingface_hub import HfApi

            info = HfApi().model_info(params.repo, revision=revision, files_metadata=True)
            files = {
                e.rfilename: Listed(e.size, e.lfs["sha256"] if e.lfs else None)
                for e in info.siblings or []
            }
    except ImportError:
        return {}
    except Exception as error:  # each client has its own families, and changes them
        raise undelivered(origin(params), f"{type(error).__name__}: {error}") from None
    absent = [name for name in needed if name not in files]
    if absent:
        ggufs = " ".join(name for name in files if name.endswith(".gguf"))
        raise KeyelabError(
            f"expected {' and '.join(absent)} at {origin(params)}, found none",
            f"set model_file and mmproj_file to files it has: {ggufs or 'no .gguf'}",
        )
    return files


def undelivered(wanted: str, said: str) -> KeyelabError:
    """The one sentence for a hub that did not deliver, from what its client said."""
    said = " ".join(_COLOUR.sub("", said).split())
    offline = "no network: " if _OFFLINE.search(said) else ""
    return KeyelabError(
        f"expected files from {wanted}, found {offline}{said[:500]}",
        "go online or set HTTPS_PROXY; check repo, revision and access rights; or copy the files "
        "to a folder by other means and set source: path, model_dir: FOLDER",
    )
