from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from keyelab.serving import memory

CARD = "0000:43:00.0"


def kernel(root: Path, used: int) -> Path:
    file = root / "sys/bus/pci/devices" / CARD / "mem_info_vram_used"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{used}\n")
    return file


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nvidia-smi that prints what the file holds, as the real one does for the query."""
    said = tmp_path / "said.txt"
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        '[ "$*" = "--query-gpu=pci.bus_id,index,memory.used --format=csv,noheader,nounits" ] '
        f'&& cat "{said}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    said.write_text("00000000:43:00.0, 0, 4\n00000000:84:00.0, 1, 1024\n")
    return said


def test_kernel_is_read_first(tmp_path: Path, smi: Path) -> None:
    kernel(tmp_path, 17)
    assert memory.used([CARD], root=tmp_path) == {CARD: 17}


def test_nvidia_smi_is_read_by_address_or_index(tmp_path: Path, smi: Path) -> None:
    found = memory.used([CARD, "0000:84:00.0", "1"], root=tmp_path)
    assert found == {CARD: 4 * 2**20, "0000:84:00.0": 2**30, "1": 2**30}


@pytest.mark.parametrize("said", ["", "00000000:43:00.0, 0, [N/A]\n", "No devices were found\n"])
def test_what_nobody_tells_is_unknown_and_never_zero(tmp_path: Path, smi: Path, said: str) -> None:
    smi.write_text(said)
    assert memory.used([CARD], root=tmp_path) == {CARD: None}
    assert memory.back({CARD: 0}, limit_s=0).status == "unknown"


def test_machine_without_any_tool_is_unknown(tmp_path: Path) -> None:
    assert memory.used([CARD], {"PATH": str(tmp_path)}, tmp_path) == {CARD: None}


def test_memory_that_comes_back_in_time_is_ok(tmp_path: Path, smi: Path) -> None:
    smi.write_text("00000000:43:00.0, 0, 4623\n")

    def free() -> None:
        time.sleep(0.7)
        smi.write_text("00000000:43:00.0, 0, 5\n")

    thread = threading.Thread(target=free)
    thread.start()
    assert memory.back({CARD: 4 * 2**20}, limit_s=20).status == "ok"
    thread.join()


def test_memory_that_stays_is_a_failure_with_its_size(smi: Path) -> None:
    smi.write_text("00000000:43:00.0, 0, 9004\n")
    found = memory.back({CARD: 4 * 2**20, "0000:84:00.0": None}, limit_s=0.1)
    assert found.status == "failed"
    assert found.found == f"{CARD} holds 9,000 MiB more"


def test_server_without_cards_has_nothing_to_wait_for() -> None:
    assert memory.back({}).status == "ok"
