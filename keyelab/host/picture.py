"""A picture of the cards: memory used and, as text, what else is known of each.

Colours are Okabe and Ito's, told apart by colour-blind readers; the state is named too.
"""

from __future__ import annotations

import io
from collections.abc import Container, Sequence
from pathlib import Path

from keyelab.facts import DeviceFact
from keyelab.files import write_bytes

_COLOURS = {"chosen": "#009E73", "busy": "#D55E00", "idle": "#0072B2", "use unknown": "#999999"}


def draw(path: Path, devices: Sequence[DeviceFact], chosen: Container[str | None]) -> Path:
    """Write a PNG: a bar a card, its memory in GiB, used and free, the cards by NUMA node."""
    from matplotlib.figure import Figure

    order = sorted(devices, key=lambda d: (str(d.socket), str(d.numa_node), d.pci_address or ""))
    figure = Figure(figsize=(8.6, 1.1 + 0.44 * len(order)), layout="constrained")
    axes = figure.subplots()
    sizes = [(d.memory_bytes or 0) / 2**30 for d in order]
    for place, (device, size) in enumerate(zip(order, sizes, strict=True)):
        said = state(device, chosen)
        colour, used = _COLOURS[said], (device.memory_used_bytes or 0) / 2**30
        axes.barh(place, size, color="#eeeeee", edgecolor=colour, linewidth=1.6, height=0.72)
        axes.barh(place, used, color=colour, height=0.72)
        axes.text(0.01, place, _label(device, said), va="center", fontsize=8.5,
                  transform=axes.get_yaxis_transform(),
                  bbox={"color": "white", "alpha": 0.8, "pad": 1.2})  # fmt: skip
        before = order[max(place - 1, 0)]
        if (before.socket, before.numa_node) != (device.socket, device.numa_node):
            axes.axhline(place - 0.5, color="#666666", linestyle="--", linewidth=1)
    names = [f"{d.pci_address}  ({'?' if d.index is None else d.index})" for d in order]
    axes.set_yticks(range(len(order)), names, fontfamily="monospace", fontsize=8.5)
    axes.invert_yaxis()
    axes.set(xlabel="memory (GiB): filled is used", xlim=(0, max([*sizes, 1.0]) * 1.02))
    axes.set_title("Cards by PCI address (number in the runtime's order)", fontsize=10, loc="left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return write_bytes(path, buffer.getvalue())


def state(device: DeviceFact, chosen: Container[str | None]) -> str:
    """Chosen, busy, idle or use unknown."""
    if device.pci_address in chosen:
        return "chosen"
    return {None: "use unknown", True: "busy", False: "idle"}[device.busy]


def _label(device: DeviceFact, said: str) -> str:
    used = device.memory_used_bytes
    known = {
        "socket {}": device.socket,
        "node {}": device.numa_node,
        "{} used": None if used is None else f"{used / 2**30:.1f} GiB",
        "{:.0f} °C": device.temperature_c,
        "{}": device.link,
        "mode {}": None if device.mode == "Normal" else device.mode,
    }
    parts = [text.format(value) for text, value in known.items() if value is not None]
    return " · ".join([device.name or "unknown model", *parts, said])
