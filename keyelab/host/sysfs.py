"""What the kernel itself says: /sys, /proc and /dev below a root that can be moved."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from keyelab.host.reading import Reading, bdf, data


def text(path: Path) -> str | None:
    """The text of a file, stripped; None when it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def whole(path: Path) -> int | None:
    """The whole number in a file, None when there is none; -1 stands for none in sysfs."""
    said = text(path) or ""
    return int(said) if re.fullmatch(r"\d{1,18}", said) else None


def cards(root: Path) -> list[Reading] | None:
    """The accelerators on PCIe by address, with or without a driver; None when there is no PCIe.

    Memory and use are there where the driver is of amdgpu's kind.
    """
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        return None
    found = []
    for place in sorted(folder.iterdir()):
        said = dict(re.findall(r"^(\w+)=(.+)$", text(place / "uevent") or "", re.MULTILINE))
        maker, device, model = _kind(said.get("PCI_ID", ":"), said.get("PCI_CLASS", "0"))
        if model is not None:
            best = {"best_link": _link(place, "max") or model.get("best_link")}
            one = Reading(
                pci_address=place.name,
                vendor=maker,
                device=device,
                driver=said.get("DRIVER"),
                numa_node=whole(place / "numa_node"),
                link=_link(place, "current"),
                memory_bytes=whole(place / "mem_info_vram_total"),
                memory_used_bytes=whole(place / "mem_info_vram_used"),
                use_percent=whole(place / "gpu_busy_percent"),
                **model | best,
            )
            found.append(one)
    return found


def _kind(ids: str, kind: str) -> tuple[str, str, dict[str, Any] | None]:
    """Maker, device id, and what is known of the model; None for what is no accelerator."""
    vendor, device = ids.lower().split(":")
    known = data("cards")
    maker = next((name for name, said in known["vendors"].items() if said["id"] == vendor), "")
    if maker == "hygon":
        return maker, device, known["hygon"].get(device)
    return maker, device, {} if maker and int(kind, 16) >> 16 in known["classes"] else None


def _link(place: Path, which: str) -> str | None:
    speed, width = text(place / f"{which}_link_speed"), whole(place / f"{which}_link_width")
    found = re.match(r"([\d.]+) ?GT/s", speed or "")
    return f"{found[1]}GT/s x{width}" if found and width else None


def agents(root: Path) -> list[Reading]:
    """The accelerators in KFD's topology, as rocminfo would tell them."""
    found: list[Reading] = []
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*")
    for node in sorted(nodes, key=lambda path: (len(path.name), path.name)):
        said = _counts(node / "properties")
        if not said.get("simd_count"):
            continue  # a CPU
        banks = (_counts(path) for path in node.glob("mem_banks/*/properties"))
        version, place = said.get("gfx_target_version"), said.get("location_id")
        digits = f"{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""
        one = Reading(
            index=len(found),
            arch=f"gfx{digits}" if digits else None,
            pci_address=None if place is None else bdf(place, said.get("domain", 0)),
            memory_bytes=sum(bank.get("size_in_bytes", 0) for bank in banks) or None,
            wavefront_lanes=said.get("wave_front_size"),
            lds_bytes=said["lds_size_in_kb"] * 1024 if "lds_size_in_kb" in said else None,
        )
        found.append(one)
    return found


def _counts(path: Path) -> dict[str, int]:
    pairs = re.findall(r"^(\w+) (\d{1,18})$", text(path) or "", re.MULTILINE)
    return {name: int(count) for name, count in pairs}


def refused(path: Path) -> str:
    """Why a device does not open for reading and writing, as the runtime does it; '' if it does."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return str(error.strerror)
    return ""


def stranded(root: Path) -> list[str] | None:
    """Processes that KFD knows and that are gone; None when KFD cannot be read.

    In a container KFD's process ids are the host's, and nothing can be said.
    """
    folder = root / "sys/class/kfd/kfd/proc"
    inside = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    if inside or not folder.is_dir():
        return None
    pids = sorted(path.name for path in folder.iterdir() if path.name.isdigit())
    return [pid for pid in pids if not (root / "proc" / pid).exists()]


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
