"""What the kernel itself says of the cards: /sys, /proc and /dev below a root that can be moved."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from keyelab.host.rocminfo import Agent, address
from keyelab.host.vendor import Reading

_KFD = "sys/class/kfd/kfd"
_PCI = "sys/bus/pci"


@dataclass(frozen=True)
class PciCard:
    """An accelerator on the PCI bus, with or without a driver; None where it was not said."""

    address: str
    vendor: str
    device: str
    driver: str | None = None
    numa_node: int | None = None
    link: str | None = None
    best_link: str | None = None


@cache
def known() -> dict[str, Any]:
    """data/cards.yaml."""
    path = Path(__file__).parent / "data" / "cards.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def is_card(vendor: str, device: str, kind: str | None) -> bool:
    """Whether a PCI device is an accelerator, from its ids and class (lower-case hex)."""
    maker = known()["vendors"].get(vendor)
    if maker == "hygon":
        return device in known()["hygon"]
    return bool(maker and kind and kind[:2] in known()["classes"])


def cards(root: Path) -> list[PciCard] | None:
    """The accelerators in /sys/bus/pci by address; None when there is no such folder."""
    folder = root / _PCI / "devices"
    if not folder.is_dir():
        return None
    found = []
    for place in sorted(folder.iterdir()):
        vendor, device, kind = (
            (text(place / name) or "").removeprefix("0x") for name in ("vendor", "device", "class")
        )
        if not is_card(vendor, device, kind):
            continue
        node = whole(place / "numa_node")
        found.append(
            PciCard(
                address=place.name,
                vendor=known()["vendors"][vendor],
                device=device,
                driver=bound_to(root, place.name),
                numa_node=node if node is not None and node >= 0 else None,
                link=_link(place, "current"),
                best_link=_link(place, "max"),
            )
        )
    return found


def readings(root: Path) -> dict[int, Reading]:
    """Memory and use of each card now, from files that drivers of amdgpu's kind have."""
    found = {}
    for number, card in enumerate(cards(root) or ()):
        place = root / _PCI / "devices" / card.address
        found[number] = Reading(
            address=card.address,
            memory_bytes=whole(place / "mem_info_vram_total"),
            memory_used_bytes=whole(place / "mem_info_vram_used"),
            use_percent=whole(place / "gpu_busy_percent"),
        )
    return found


def bound_to(root: Path, card: str) -> str | None:
    """The driver that holds a PCI device."""
    return next((p.parent.name for p in (root / _PCI / "drivers").glob(f"*/{card}")), None)


def agents(root: Path) -> list[Agent]:
    """The accelerators in KFD's topology, in the runtime's order, as rocminfo would tell them."""
    found: list[Agent] = []
    nodes = (root / _KFD / "topology" / "nodes").glob("[0-9]*")
    for node in sorted(nodes, key=lambda path: int(path.name) if path.name.isdigit() else 0):
        said = dict(re.findall(r"^(\w+) (\d{1,20})$", text(node / "properties") or "", re.M))
        if not int(said.get("simd_count", 0)):
            continue  # a CPU
        lds, version = said.get("lds_size_in_kb"), int(said.get("gfx_target_version", 0))
        banks = [text(path) or "" for path in sorted(node.glob("mem_banks/*/properties"))]
        sizes = [int(size) for bank in banks for size in re.findall(r"size_in_bytes (\d+)", bank)]
        found.append(
            Agent(
                index=len(found),
                arch=f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
                if version
                else None,
                address=address(int(said["location_id"]), int(said.get("domain", 0)))
                if "location_id" in said
                else None,
                memory_bytes=sum(sizes) or None,
                wavefront_lanes=int(said.get("wave_front_size", 0)) or None,
                lds_bytes=int(lds) * 1024 if lds else None,
            )
        )
    return found


def holders(root: Path) -> tuple[list[int], list[int]] | None:
    """(processes that KFD knows, those of them that are gone); None when KFD cannot be read.

    In a container KFD's process ids are the host's, and nothing can be said.
    """
    folder = root / _KFD / "proc"
    inside = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    if inside or not folder.is_dir():
        return None
    pids = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    return pids, [pid for pid in pids if not (root / "proc" / str(pid)).exists()]


def command(root: Path, pid: int) -> str | None:
    """The program of a process, without its arguments, and its container where it is in one."""
    name = text(root / "proc" / str(pid) / "comm")
    groups = text(root / "proc" / str(pid) / "cgroup") or ""
    inside = re.search(r"(?:docker|libpod|containerd)[-/:]([0-9a-f]{12})", groups)
    return f"{name} in container {inside[1]}" if name and inside else name


def socket_of(root: Path, node: int | None) -> int | None:
    """The CPU socket of a NUMA node: one socket has up to four nodes."""
    first = re.match(r"\d+", text(root / f"sys/devices/system/node/node{node}/cpulist") or "")
    cpu = f"sys/devices/system/cpu/cpu{first[0]}/topology/physical_package_id" if first else ""
    return whole(root / cpu) if cpu else None


def opened(path: Path) -> OSError | None:
    """Open a device for reading and writing, as the runtime does; the error, or None."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error
    return None


def text(path: Path) -> str | None:
    """The text of a file, stripped; None when it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def whole(path: Path) -> int | None:
    """The whole number in a file; None when there is none."""
    said = text(path) or ""
    return int(said) if re.fullmatch(r"-?\d{1,20}", said) else None


def _link(place: Path, which: str) -> str | None:
    speed, width = text(place / f"{which}_link_speed"), whole(place / f"{which}_link_width")
    number = re.match(r"[\d.]+ ?GT/s", speed or "")
    return f"{number[0].replace(' ', '')} x{width}" if number and width else None
