"""What a run's programs write to TMPDIR is in one folder, which goes with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from keyelab.record import scratch


def test_programs_of_a_run_put_their_temporary_files_into_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUPYTER_RUNTIME_DIR", raising=False)
    before = os.environ.get("TMPDIR")
    folder = scratch.path(tmp_path)
    code = "import tempfile; print(tempfile.mkdtemp())"
    with scratch.used(tmp_path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert Path(done.stdout.strip()).parent == folder
        assert Path(tempfile.mkdtemp()).parent == folder, "of this process, too"
        assert os.environ["JUPYTER_RUNTIME_DIR"] == str(folder)
        assert folder.stat().st_mode & 0o077 == 0
    assert os.environ.get("TMPDIR") == before
    assert "JUPYTER_RUNTIME_DIR" not in os.environ
    scratch.remove(tmp_path)
    scratch.remove(tmp_path)
    assert not folder.exists()
