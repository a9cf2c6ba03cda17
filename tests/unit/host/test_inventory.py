"""The cards of a host, joined by address, whatever is there to ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_host import ADDRESSES, PCI, RecordedHost

from keyelab.host import answers, inventory, sysfs
from keyelab.host.inventory import Seen
from keyelab.host.reading import Reading, data


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    return RecordedHost(tmp_path)


def in_sysfs(root: Path, place: str, ids: str = "1D94:6210", kind: str = "B4000",
             **files: str) -> None:  # fmt: skip
    folder = root / PCI / place
    folder.mkdir(parents=True)
    said = {"uevent": f"PCI_CLASS={kind}\nPCI_ID={ids}", "numa_node": "1", **files}
    for name, text in said.items():
        (folder / name).write_text(f"{text}\n")


def in_kfd(root: Path, number: int, bus: int, simds: int = 480) -> None:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    (folder / "mem_banks/0").mkdir(parents=True)
    (folder / "properties").write_text(
        f"simd_count {simds}\nlds_size_in_kb 64\nwave_front_size 64\ngfx_target_version 90208\n"
        f"location_id {bus << 8}\ndomain 0\n"
    )
    (folder / "mem_banks/0/properties").write_text("heap_type 1\nsize_in_bytes 68702699520\n")


def test_the_recorded_host_reads_whole(host: RecordedHost) -> None:
    cards = host.cards()
    assert [d.pci_address for d in cards.devices] == ADDRESSES
    assert [d.index for d in cards.devices] == list(range(8))
    assert [d.socket for d in cards.devices] == [0] * 4 + [1] * 4
    first = cards.devices[0]
    assert (first.name, first.arch, first.driver, first.link) == (
        "K100_AI", "gfx928", "hycu", "16.0GT/s x16",
    )  # fmt: skip
    assert (first.memory_used_bytes, first.temperature_c, first.busy) == (2 * 2**20, 35.0, False)


def test_readings_follow_the_address_and_not_the_number(host: RecordedHost) -> None:
    """hy-smi counts the other way round than the runtime."""
    numbers = ",".join(f'"card{7 - n}": {{"PCI Bus": "{a}"}}' for n, a in enumerate(ADDRESSES))
    host.says("hy-smi--showbus--json", f"{{{numbers}}}")
    host.edit("recorded/host/hy-smi.txt", "0       35.0C", "0       99.0C")
    devices = {d.pci_address: d for d in host.devices()}
    assert (devices[ADDRESSES[7]].temperature_c, devices[ADDRESSES[7]].index) == (99.0, 7)
    assert devices[ADDRESSES[0]].temperature_c == 36.0


def test_readings_without_an_address_are_given_to_no_card(host: RecordedHost) -> None:
    host.says("hy-smi--showbus--json", "This command does not support to set print format\n")
    host.says("hy-smi--healthcheck", "")
    cards = host.cards()
    assert {d.busy for d in cards.devices} == {None}
    assert "hy-smi gives no PCI address of card 7" in cards.disagreements


def test_without_the_vendors_tool_the_kernel_is_asked(tmp_path: Path) -> None:
    for number, place in enumerate(("0000:06:00.0", "0000:09:00.0")):
        in_sysfs(
            tmp_path, place, mem_info_vram_total="68702699520", mem_info_vram_used="2097152",
            gpu_busy_percent="0", current_link_speed="16.0 GT/s PCIe", current_link_width="16",
            max_link_speed="16.0 GT/s PCIe", max_link_width="16",
        )  # fmt: skip
        in_kfd(tmp_path, number + 1, int(place[5:7], 16))
    in_kfd(tmp_path, 0, 0, simds=0)  # the CPU is a node too
    in_sysfs(tmp_path, "0000:00:01.1", ids="1D94:1453", kind="60400")  # a bridge of the same vendor
    seen = inventory.look("hip", {"PATH": ""}, tmp_path, tmp_path / "logs/01.log", pause_s=0)
    assert seen.tool == ""
    assert "on PATH, found none" in seen.why["rocminfo"]
    devices = inventory.join(seen).devices
    assert [(d.index, d.name, d.arch, d.link, d.numa_node) for d in devices] == [
        (0, "K100_AI", "gfx928", "16.0GT/s x16", 1), (1, "K100_AI", "gfx928", "16.0GT/s x16", 1),
    ]  # fmt: skip
    assert (devices[0].memory_bytes, devices[0].memory_used_bytes) == (68702699520, 2097152)
    assert devices[0].busy is False


def test_a_card_without_a_driver_is_still_named(tmp_path: Path) -> None:
    in_sysfs(tmp_path, "0000:06:00.0", ids="1D94:6211", numa_node="-1")
    (device,) = inventory.join(Seen(tmp_path)).devices
    assert (device.name, device.driver, device.index, device.numa_node) == (
        "K100_AI ECO", None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "kind", "vendors"),
    [
        ("1002:73BF", "30000", ["amd"]),
        ("10DE:2335", "30200", ["nvidia"]),
        ("10DE:22A3", "68000", []),
        ("1D94:1453", "60400", []),
        ("1A03:2000", "30000", []),
    ],
)
def test_cards_of_other_vendors_are_known_by_their_class(
    tmp_path: Path, ids: str, kind: str, vendors: list[str]
) -> None:
    in_sysfs(tmp_path, "0000:06:00.0", ids, kind)
    assert [card.vendor for card in sysfs.cards(tmp_path) or ()] == vendors


def test_nvidia_smi_is_read_by_column(tmp_path: Path) -> None:
    answer = (
        "0, NVIDIA H200, 00000000:18:00.0, 143771, 1, 0, 28, 76.54, 570.86.15, 9.0, 16, 16\n"
        "1, NVIDIA H200, 00000000:2A:00.0, 143771, 99000, [N/A], 31, 99.9, 570.86.15, 9.0, 8, 16\n"
        "Failed to initialize NVML: Driver/library version mismatch\n"
    )
    read = answers.read(answer)
    seen = Seen(tmp_path, "nvidia-smi", rounds=[read, read, read])
    first, second = inventory.join(seen).devices
    assert (first.pci_address, first.arch, first.index, first.busy) == (
        "0000:18:00.0", "sm_90", 0, False,
    )  # fmt: skip
    assert (second.pci_address, second.use_percent, second.busy) == ("0000:2a:00.0", None, True)


def sample(used: int | None, use: float | None) -> Reading:
    return Reading(memory_bytes=65520, memory_used_bytes=used, use_percent=use)


@pytest.mark.parametrize(
    ("rounds", "busy"),
    [
        ([sample(2, 0)] * 3, False),
        ([sample(2, 90), sample(2, 0), sample(2, 0)], False),  # a passing burst
        ([sample(2, 90), sample(2, 90), sample(2, 0)], True),
        ([sample(60000, 0)] * 3, True),  # a resident service that rests
        ([sample(2, None)] * 3, None),
        ([sample(None, 0), sample(2, 0), sample(2, 0)], False),
        ([sample(2, 90), sample(2, 0), sample(None, 0)], None),
        ([sample(2, 250)] * 3, None),  # out of range is no reading
        ([], None),
    ],
)
def test_busy_takes_two_of_three_samples(rounds: list[Reading], busy: bool | None) -> None:
    assert inventory.busy(rounds) is busy


def test_every_answer_is_kept_word_for_word(host: RecordedHost) -> None:
    host.look()
    kept = host.folder / "logs/host"
    text = (kept / "01_env_check-rocminfo.log").read_text()
    assert (host.folder / "recorded/host/rocminfo.txt").read_text() in text
    assert "$ rocminfo\n" in text
    assert len(list(kept.glob("01_env_check-memory-*.log"))) == 3


def test_hy_smi_is_asked_and_never_told() -> None:
    asks = data("cards")["asks"]
    words = " ".join([*asks["once"].values(), *asks["often"].values()]).split()
    assert all(inventory._READS.fullmatch(word) for word in words)
    for word in ("--setmemiovol", "--setpoweroverdrive", "--rasinject", "--unloaddriver",
                 "--loaddriver", "--setsclk", "--setboost", "--hcureset"):  # fmt: skip
        with pytest.raises(ValueError, match="only asked questions"):
            inventory._answer(["hy-smi", word], {}, Path("/nowhere"))


def test_a_tool_that_hangs_is_ended_and_has_said_nothing(
    host: RecordedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "TIMEOUT_S", 1.0)
    host.silence("rocminfo")
    (host.folder / "rocminfo").write_text("#!/bin/sh\nexec sleep 60\n")
    (host.folder / "rocminfo").chmod(0o755)
    seen = host.look()
    assert seen.said["rocminfo"] == ""
    assert "still running" in seen.why["rocminfo"]


def test_in_a_container_kfd_says_nothing_of_processes(host: RecordedHost) -> None:
    host.put("sys/class/kfd/kfd/proc/4711/pasid", "1\n")
    assert sysfs.stranded(host.root) == ["4711"]
    host.put(".dockerenv")
    assert sysfs.stranded(host.root) is None
