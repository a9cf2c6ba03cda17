"""What lspci prints: ids of every device, and with -vvv the switches between them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keyelab.host.vendor import address

_ID = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
# without -nn a device that pciutils has no name for is named by its id, its vendor is not
_NAMELESS = re.compile(r"(Chengdu )?Haiguang IC.*Device ([0-9a-f]{4})\b", re.IGNORECASE)
_CLASS = re.compile(r"\[([0-9a-f]{4})\]:")


@dataclass(frozen=True)
class Device:
    """A device on PCIe: address, vendor and device id, and class, lower-case hex."""

    address: str
    vendor: str
    device: str
    kind: str | None = None


def devices(text: str) -> list[Device]:
    """The devices in `lspci -D -nn`; a line without ids names none."""
    found = []
    for line in text.splitlines():
        place, named = address(line.split(" ")[0]), _NAMELESS.search(line)
        ids = _ID.findall(line)
        if place and (ids or named):
            vendor, device = ids[-1] if ids else ("1d94", named[2] if named else "")
            kind = _CLASS.search(line)
            found.append(Device(place, vendor.lower(), device.lower(), kind[1] if kind else None))
    return found


def acs_on(text: str) -> list[str] | None:
    """Addresses whose ACS checks the source of each packet, in `lspci -D -vvv`.

    None when no ACS control could be read: without root, lspci says <access denied>.
    """
    found = [
        (address(block.split(" ")[0]) or "", control[1])
        for block in re.split(r"\n(?=\S)", text)
        if (control := re.search(r"ACSCtl:.*SrcValid([+-])", block))
    ]
    if not found and ("access denied" in text or not text.strip()):
        return None
    return [place for place, sign in found if sign == "+"]


def unassigned(text: str) -> list[str]:
    """Addresses with a memory region that has no place, in `lspci -D -vvv`."""
    lost = re.compile(r"Region \d+: Memory at <(?:unassigned|ignored)>")
    blocks = [block for block in re.split(r"\n(?=\S)", text) if lost.search(block)]
    return [place for block in blocks if (place := address(block.split(" ")[0]))]
