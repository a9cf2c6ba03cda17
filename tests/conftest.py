"""Fixtures that need more than a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def llama_source() -> Path:
    """The pristine llama.cpp tree of the default parameters, obtained once into work/; read only.

    A test that uses it carries the marker `source`.
    """
    from keyelab.params import SourcePatch
    from keyelab.patching.source import obtain

    workdir = Path(__file__).resolve().parents[1] / "work"
    return obtain(SourcePatch(), workdir, lambda fraction, text: None).tree
