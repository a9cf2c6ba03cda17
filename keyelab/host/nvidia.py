"""What nvidia-smi answers to a query. Pure; what cannot be read is None."""

from __future__ import annotations

import re

from keyelab.host.vendor import Reading, address, number

COLUMNS = (
    "index", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu",
    "temperature.gpu", "power.draw", "driver_version", "compute_cap", "pcie.link.width.current",
)  # fmt: skip
QUERY = ["nvidia-smi", f"--query-gpu={','.join(COLUMNS)}", "--format=csv,noheader,nounits"]


def rows(text: str) -> list[dict[str, str]]:
    """The lines of an answer to QUERY by column; other lines (errors, warnings) are left out."""
    found = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in found if len(cells) == len(COLUMNS)]
    return [row for row in rows if re.fullmatch(r"\d{1,6}", row["index"])]


def read(text: str) -> dict[int, Reading]:
    """The cards in an answer to QUERY, by nvidia-smi's number, which is the PCI order."""
    result = {}
    for row in rows(text):
        total, used = number(row["memory.total"]), number(row["memory.used"])
        width = number(row["pcie.link.width.current"])
        result[int(row["index"])] = Reading(
            name=row["name"] or None,
            address=address(row["pci.bus_id"]),
            link=f"x{width:.0f}" if width else None,
            memory_bytes=None if total is None else int(total * 2**20),
            memory_used_bytes=None if used is None else int(used * 2**20),
            use_percent=number(row["utilization.gpu"]),
            temperature_c=number(row["temperature.gpu"]),
            power_w=number(row["power.draw"]),
        )
    return result
