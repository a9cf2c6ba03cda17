"""Temporary files of a run: one folder for all its programs, so that none outlives a killed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def path(folder: Path) -> Path:
    """Where the programs of a run put their temporary files."""
    return Path(tempfile.gettempdir()) / f"keyelab-{folder.name}"


@contextlib.contextmanager
def used(folder: Path) -> Iterator[None]:
    """Let what is started in the block put its temporary files there."""
    here = path(folder)
    here.mkdir(mode=0o700, exist_ok=True)
    names = {"TMPDIR": str(here), "JUPYTER_RUNTIME_DIR": str(here)}
    before, own = {name: os.environ.get(name) for name in names}, tempfile.tempdir
    os.environ.update(names)
    tempfile.tempdir = str(here)  # Jupyter writes how to reach the kernel from this process
    try:
        yield
    finally:
        tempfile.tempdir = own
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def remove(folder: Path) -> None:
    """Remove them."""
    shutil.rmtree(path(folder), ignore_errors=True)
