"""The shared copy of a real run: it verifies, and says nothing of this machine."""

from __future__ import annotations

import json
import socket
import zipfile
from pathlib import Path

import pytest
from homes import run_keyelab

from keyelab.files import sha256_file
from keyelab.record import seal

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def copy(demo_home: Path, demo_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked copy of the demo run."""
    folder = tmp_path_factory.mktemp("shared")
    done = run_keyelab(demo_home, "share", str(demo_run), "-o", str(folder / "demo.zip"))
    assert done.returncode == 0, done.stdout
    zipfile.ZipFile(folder / "demo.zip").extractall(folder)
    return folder / demo_run.name


def test_copy_verifies_and_names_its_original(demo_home: Path, demo_run: Path, copy: Path) -> None:
    done = run_keyelab(demo_home, "verify", str(copy))
    assert done.returncode == 0, done.stdout
    original = json.loads((copy / "run.json").read_text())["original"]
    assert original == {
        "run_id": demo_run.name,
        "sums_sha256": sha256_file(demo_run / seal.SUMS),
    }
    assert run_keyelab(demo_home, "verify", str(demo_run)).returncode == 0


def test_copy_says_nothing_of_this_machine(demo_home: Path, demo_run: Path, copy: Path) -> None:
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in copy.rglob("*")
        if path.is_file() and path.suffix != ".png"
    }
    assert len(texts) > 40
    told = [str(demo_home), f"{Path.home()}/", f"@{socket.gethostname()}"]
    assert [(p.name, word) for p, text in texts.items() for word in told if word in text] == []
    assert any(str(demo_home) in p.read_text() for p in demo_run.glob("logs/*.log")), "it was there"


def test_only_names_were_changed(demo_run: Path, copy: Path) -> None:
    logs = sorted(path.name for path in (demo_run / "logs").iterdir())
    assert logs == sorted(path.name for path in (copy / "logs").iterdir())
    server = next((demo_run / "logs").glob("06_serve-server-*.log"))
    renamed = server.read_text().replace(str(demo_run.parents[2]), "/path-a")
    assert renamed == (copy / "logs" / server.name).read_text()
    for kind in ("facts", "patches"):
        for path in (demo_run / kind).iterdir():
            assert path.read_text() == (copy / kind / path.name).read_text(), path.name
