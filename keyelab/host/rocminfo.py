"""What rocminfo and rocm_agent_enumerator print. Pure; what cannot be read is None."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BDFID = re.compile(r"^\s*BDFID:\s*(\d{1,10})\b", re.MULTILINE)
_POOL = re.compile(r"Segment:\s*(GLOBAL|GROUP).*\n\s*Size:\s*(\d{1,15})", re.MULTILINE)


@dataclass(frozen=True)
class Agent:
    """An accelerator as the runtime numbers it: `index` is what HIP_VISIBLE_DEVICES takes."""

    index: int
    arch: str | None = None
    name: str | None = None
    address: str | None = None
    memory_bytes: int | None = None
    workgroup_threads: int | None = None
    wavefront_lanes: int | None = None
    lds_bytes: int | None = None


def agents(text: str) -> list[Agent]:
    """Every agent that is no CPU, in the runtime's order."""
    found: list[Agent] = []
    for block in re.split(r"^\s*Agent \d+\s*$", text, flags=re.MULTILINE)[1:]:
        kind = _text(block, "Device Type")
        if kind is None or kind == "CPU":
            continue
        sizes = {segment: int(size) * 1024 for segment, size in reversed(_POOL.findall(block))}
        bdf = _BDFID.search(block)
        found.append(
            Agent(
                index=len(found),
                arch=arch(block),
                name=_text(block, "Marketing Name"),
                address=address(int(bdf[1])) if bdf else None,
                memory_bytes=sizes.get("GLOBAL"),
                workgroup_threads=_count(block, "Workgroup Max Size"),
                wavefront_lanes=_count(block, "Wavefront Size"),
                lds_bytes=sizes.get("GROUP"),
            )
        )
    return found


def archs(text: str) -> list[str]:
    """The cards in what rocm_agent_enumerator prints; its gfx000 is the CPU."""
    return [name for name in re.findall(r"^gfx\w+", text, re.MULTILINE) if name != "gfx000"]


def arch(text: str) -> str | None:
    """The first gfx name in a text, without features: gfx928:sramecc+ is gfx928."""
    found = re.search(r"\bgfx[0-9a-f]{3,5}\b", text)
    return found[0] if found else None


def address(bdfid: int, domain: int = 0) -> str:
    """The PCI address of a BDFID or of KFD's location_id, which do not name the domain."""
    bus, place = bdfid >> 8 & 0xFF, bdfid & 0xFF
    return f"{domain & 0xFFFF:04x}:{bus:02x}:{place >> 3:02x}.{place & 7}"


def _text(block: str, name: str) -> str | None:
    found = re.search(rf"^\s*{name}:[ \t]*(\S.*?)\s*$", block, re.MULTILINE)
    return found[1] if found else None


def _count(block: str, name: str) -> int | None:
    found = re.search(rf"^\s*{name}:\s*(\d{{1,10}})\b", block, re.MULTILINE)
    return int(found[1]) if found else None
