"""What hy-smi, rocm-smi, nvidia-smi, rocminfo and lspci print. Pure; what cannot be read is None.

Columns and fields are found by name, never by place: the tables of old (DCU, Fan) and new (HCU,
Dec%, Enc%) tools differ, and so do the names' first words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from keyelab.host.reading import Reading, address, bdf, gib, number

Fields = dict[str, str]

_NVIDIA = (
    "index", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu",
    "temperature.gpu", "power.draw", "driver_version", "compute_cap", "pcie.link.width.current",
    "pcie.link.width.max",
)  # fmt: skip
QUERY = ["nvidia-smi", f"--query-gpu={','.join(_NVIDIA)}", "--format=csv,noheader,nounits"]

# hyhal's JSON of power readings lacks commas: "91.0""Average GFX Core Power (W)": "20.0"
_NO_COMMA = re.compile(r'"\s*"(?=[A-Za-z(])')
_LINE = re.compile(r"^[HDG][CP]U\[(\d{1,6})\][ \t]*:\s*(.*?)(?::|(?<=level) )(.*)$", re.MULTILINE)
_COLUMNS = re.compile(r"^(?:HCU|DCU|GPU|Device)\s{2,}\S", re.IGNORECASE)
_POOL = re.compile(r"Segment:\s*(GLOBAL|GROUP).*\n\s*Size:\s*(\d{1,12})", re.MULTILINE)
_BOXED = re.compile(
    r"^\|\s*(\d{1,6})\s+(\S+)\s*\|\s*(\S+C)\s.*?\|\s*(\S+?)MiB\s*/\s*(\S+?)MiB", re.M
)


def _healthy(text: str) -> bool | None:
    found = re.search(r" : (\w+)\s*$", text)
    return found[1].lower() == "healthy" if found else None


def _link(text: str) -> str | None:
    found = re.search(r"([\d.]+GT/s), (x\d+)", text)
    return f"{found[1]} {found[2]}" if found else None


# a field, the names that tools give it, and how it is read: a number's unit, or a function
_READ: tuple[tuple[str, str, float | Callable[[str], Any]], ...] = (
    ("name", r"Card Series$|name$", lambda text: text.strip() or None),
    ("pci_address", r"PCI Bus$|pci\.bus_id$", address),
    ("index", r"index$", 1),
    ("arch", r"compute_cap$", lambda text: f"sm_{text.replace('.', '')}"),
    ("driver", r"driver_version$", "nvidia {}".format),
    ("mode", r"Mode$", str.strip),
    ("healthy", r"Bus Id$", _healthy),
    ("link", r"pcie clock", _link),
    ("link", r"pcie\.link\.width\.current$", "x{}".format),
    ("best_link", r"pcie\.link\.width\.max$", "x{}".format),
    ("memory_bytes", r"vram Total Memory \(MiB\)|memory\.total$", 2**20),
    ("memory_bytes", r"vram Total Memory \(B\)", 1),
    ("memory_used_bytes", r"vram Total Used Memory \(MiB\)|memory\.used$", 2**20),
    ("memory_used_bytes", r"vram Total Used Memory \(B\)", 1),
    ("memory_percent", r"VRAM%|[HDG]CU memory use \(%\)|GPU Memory Allocated \(VRAM%\)", 1.0),
    ("use_percent", r"[HD]CU%|GPU%|[HDG][CP]U use \(%\)|utilization\.gpu$", 1.0),
    ("temperature_c", r"Temp(erature\.gpu)?$|Temperature \(Sensor (?:core|edge)\) \(C\)", 1.0),
    ("power_w", r"AvgPwr|Average Graphics Package Power \(W\)|power\.draw$", 1.0),
    ("numa_node", r"(?:\(Topology\) )?Numa Node$", 1),
)


def read(text: str) -> dict[int, Reading]:
    """Every card that a text of one of the tools says something of, by the tool's number.

    nvidia-smi's number is the PCI order; those of the others are nobody's but their own.
    """
    said: dict[int, Fields] = {}
    for source in (_from_json, _from_lines, _from_rows, _from_boxes):
        for card, found in source(text):
            said.setdefault(card, {}).update(found)
    return {card: _reading(found) for card, found in sorted(said.items())}


def holders(text: str) -> dict[int, str]:
    """What each process in `--showpids` holds; a share of memory that reads `inf` is not used."""
    result = {}
    for block in re.split(r"^PID:", text, flags=re.MULTILINE)[1:]:
        if pid := re.match(r"\s*(\d+)\s*$", block, re.MULTILINE):
            used = re.search(r"VRAM USED\s*\(MiB\):\s*(\S+)", block)
            buses = re.search(r"PCI BUS:(.*)", block)
            found = (address(part) for part in (buses[1] if buses else "").split(","))
            places = " ".join(filter(None, found)) or "unknown cards"
            size = _value(used[1], 2**20) if used else None
            result[int(pid[1])] = f"{gib(size)} on {places}"
    return result


def driver_version(text: str) -> str | None:
    """The version in `--showdriverversion` or in /opt/hyhal/version, suffix kept."""
    found = re.search(r"driver version:\s*(\S+)", text, re.IGNORECASE)
    found = found or re.search(r"^\s*(\d+(?:\.\d+)+\S*)\s*$", text, re.MULTILINE)
    return found[1] if found else None


def agents(rocminfo: str) -> list[Reading]:
    """Every agent of rocminfo that is no CPU; `index` is what HIP_VISIBLE_DEVICES takes."""
    found: list[Reading] = []
    for block in re.split(r"^\s*Agent \d+\s*$", rocminfo, flags=re.MULTILINE)[1:]:
        lines = re.findall(r"^\s*([A-Z][\w ]*):[ \t]*(\S.*?)\s*$", block, re.MULTILINE)
        said = dict(reversed(lines))  # of an agent's many pools and ISAs the first counts
        if said.get("Device Type", "CPU") == "CPU":
            continue
        sizes = {segment: int(size) * 1024 for segment, size in reversed(_POOL.findall(block))}
        arch = re.search(r"\bgfx[0-9a-f]{3,5}\b", block)
        place = _value(said.get("BDFID", ""), 1)
        one = Reading(
            index=len(found),
            arch=arch[0] if arch else None,
            name=said.get("Marketing Name"),
            pci_address=None if place is None else bdf(place),
            memory_bytes=sizes.get("GLOBAL"),
            workgroup_threads=_value(said.get("Workgroup Max Size", ""), 1),
            wavefront_lanes=_value(said.get("Wavefront Size", ""), 1),
            lds_bytes=sizes.get("GROUP"),
        )
        found.append(one)
    return found


def acs_on(lspci: str) -> list[str] | None:
    """Addresses whose ACS checks the source of each packet, in `lspci -D -vvv`.

    None when no ACS control could be read: without root, lspci says <access denied>.
    """
    found = _devices(lspci, r"ACSCtl:.*SrcValid[+-]")
    if not found and ("access denied" in lspci or not lspci.strip()):
        return None
    return [place for place, control in found.items() if control.endswith("+")]


def unassigned(lspci: str) -> list[str]:
    """Addresses with a memory region that has no place, in `lspci -D -vvv`."""
    return list(_devices(lspci, r"Region \d+: Memory at <(?:unassigned|ignored)>"))


def _devices(lspci: str, pattern: str) -> dict[str, str]:
    blocks = ((address(block[:16]), block) for block in re.split(r"\n(?=\S)", lspci))
    found = {place: re.search(pattern, block) for place, block in blocks if place}
    return {place: said[0] for place, said in found.items() if said}


def _from_json(text: str) -> Iterator[tuple[int, Fields]]:
    for content in _objects(text):
        for key, value in content.items():
            card = re.fullmatch(r"(?:card|GPU|HCU|DCU)(\d{1,6})", str(key))
            if card and isinstance(value, dict):
                yield int(card[1]), {str(name): str(said) for name, said in value.items()}


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        for attempt in (text[at:], _NO_COMMA.sub('", "', text[at:])):
            try:
                content, end = decoder.raw_decode(attempt)
            except (ValueError, RecursionError):
                continue
            yield content
            text, at = attempt, end
            break
        else:
            at += 1


def _from_lines(text: str) -> Iterator[tuple[int, Fields]]:
    for card, name, said in _LINE.findall(text):
        yield int(card), {name.strip(): said.strip()}


def _from_rows(text: str) -> Iterator[tuple[int, Fields]]:
    """A table below its names, or the lines that answer QUERY."""
    names: list[str] = []
    for line in text.splitlines():
        cells, heads = [cell.strip() for cell in line.split(",")], list(_NVIDIA)
        if len(cells) != len(heads):
            cells, heads = line.split(), names
        if _COLUMNS.match(line):
            names = cells
        elif cells and len(cells) == len(heads) and re.fullmatch(r"\d{1,6}", cells[0]):
            row = zip(heads, cells, strict=True)
            yield int(cells[0]), {name: cell for name, cell in row if not cell.startswith("[")}


def _from_boxes(text: str) -> Iterator[tuple[int, Fields]]:
    for card, name, heat, used, total in _BOXED.findall(text):
        memory = {"vram Total Used Memory (MiB)": used, "vram Total Memory (MiB)": total}
        yield int(card), {"Card Series": name, "Temp": heat, **memory}


def _reading(said: Fields) -> Reading:
    values: dict[str, Any] = {}
    for field, names, how in _READ:
        for name, text in said.items():
            if values.get(field) is None and re.match(names, name, re.IGNORECASE):
                values[field] = _value(text, how)
    return Reading(**values)


def _value(text: str, how: float | Callable[[str], Any]) -> Any:
    if callable(how):
        return how(text)
    count = number(text)
    # a whole unit is that of a field of whole numbers
    return None if count is None or count < 0 else type(how)(count * how)
