"""Memory in use on cards, by PCI address: what was there before a server, and whether it is back.

Read from the kernel (`mem_info_vram_used`, which rocm-smi and its kin read as well), else from
nvidia-smi. What neither tells is None.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from keyelab import shell
from keyelab.checks import Check, check
from keyelab.errors import KeyelabError

TOLERANCE_BYTES = 256 * 2**20  # what drivers keep for themselves comes and goes
_QUERY = ("--query-gpu=pci.bus_id,index,memory.used", "--format=csv,noheader,nounits")
_ROW = re.compile(r"^[0-9A-Fa-f]*([0-9A-Fa-f]{4}:\S+), *(\d+), *(\d+)$", re.MULTILINE)


def used(
    cards: Sequence[str], env: Mapping[str, str] | None = None, root: Path = Path("/")
) -> dict[str, int | None]:
    """Bytes in use on each card (PCI address, or nvidia-smi's index); None is unknown."""
    found = {card: _kernel(root / "sys/bus/pci/devices" / card) for card in cards}
    if None not in found.values():
        return found
    try:
        said = shell.run(["nvidia-smi", *_QUERY], env=env or os.environ, timeout_s=20).output
    except (KeyelabError, OSError):
        return found
    told = {}
    for place, index, mib in _ROW.findall(said):
        told[place.lower()] = told[index] = int(mib) * 2**20
    return {card: told.get(card.lower()) if n is None else n for card, n in found.items()}


def back(
    before: Mapping[str, int | None], env: Mapping[str, str] | None = None, limit_s: float = 30.0
) -> Check:
    """Whether cards hold no more than `before`, waited for up to `limit_s`; None before: unknown.

    Without cards there is nothing to wait for: memory of the host goes with the process.
    """
    deadline = time.monotonic() + limit_s
    while True:
        now = used([*before], env) if before else {}
        more = {
            card: None if then is None or held is None else held - then
            for (card, then), held in zip(before.items(), now.values(), strict=True)
        }
        left = {card: n for card, n in more.items() if n is not None and n > TOLERANCE_BYTES}
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    unknown = [card for card, n in more.items() if n is None]
    text = ", ".join(f"{card} holds {n / 2**20:,.0f} MiB more" for card, n in left.items())
    return check(
        "device memory",
        False if left else None if unknown else True,
        expected="as before the start",
        found=text or (f"unknown of {' '.join(unknown)}" if unknown else "as before the start"),
        remedy="see who holds it: hy-smi --showpids, rocm-smi --showpids or nvidia-smi",
    )


def _kernel(device: Path) -> int | None:
    try:
        said = (device / "mem_info_vram_used").read_text().strip()
    except (OSError, ValueError):
        return None
    return int(said) if said.isdecimal() else None
