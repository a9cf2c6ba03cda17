"""What hy-smi and rocm-smi print: JSON, text lines and tables. Pure; what cannot be read is None.

Columns and fields are found by name, never by place: the tables of old (DCU, Fan) and new (HCU,
Dec%, Enc%) tools differ, and so do the names' first words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

Fields = dict[str, str]

# hyhal's JSON of power readings lacks commas: "91.0""Average GFX Core Power (W)": "20.0"
_NO_COMMA = re.compile(r'"\s*"(?=[A-Za-z(])')
_LINE = re.compile(r"^[HDG][CP]U\[(\d{1,6})\]\s*:\s*(.*)$", re.MULTILINE)
_COLUMNS = re.compile(r"^(?:HCU|DCU|GPU|Device)\s{2,}\S", re.IGNORECASE)
_BOXED = re.compile(
    r"^\|\s*(\d{1,6})\s+(\S+)\s*\|\s*(\S+C)\s.*?\|\s*(\S+?)MiB\s*/\s*(\S+?)MiB", re.M
)
_BDF = re.compile(r"\b(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])\b", re.IGNORECASE)
_PATTERNS = {  # field of Reading: name of a field or column, and the factor to its unit
    "name": (r"Card Series$", 0),
    "device_id": (r"Device ID$", 0),
    "address": (r"PCI Bus$", 0),
    "mode": (r"Mode$", 0),
    "health": (r"Bus Id$", 0),
    "memory_bytes": (r"vram Total Memory \(MiB\)", 2**20),
    "memory_bytes ": (r"vram Total Memory \(B\)", 1),
    "memory_used_bytes": (r"vram Total Used Memory \(MiB\)", 2**20),
    "memory_used_bytes ": (r"vram Total Used Memory \(B\)", 1),
    "memory_percent": (r"VRAM%|[HDG]CU memory use \(%\)|GPU Memory Allocated \(VRAM%\)", 1),
    "use_percent": (r"[HD]CU%|GPU%|[HDG][CP]U use \(%\)", 1),
    "temperature_c": (r"Temp$|Temperature \(Sensor (?:core|edge)\) \(C\)", 1),
    "power_w": (r"AvgPwr|Average Graphics Package Power \(W\)", 1),
    "numa_node": (r"(?:\(Topology\) )?Numa Node$", 1),
}


@dataclass(frozen=True)
class Reading:
    """What a tool said of one card."""

    name: str | None = None
    device_id: str | None = None
    address: str | None = None
    mode: str | None = None
    health: str | None = None
    link: str | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_percent: float | None = None
    use_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    numa_node: int | None = None


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of cards; used_bytes and addresses as far as they were said."""

    pid: int
    addresses: tuple[str, ...] = ()
    used_bytes: int | None = None


def read(text: str) -> dict[int, Reading]:
    """Every card that a text of hy-smi or rocm-smi says something of, by the tool's number."""
    said: dict[int, Fields] = {}
    for source in (_from_json(text), _from_lines(text), _from_table(text), _from_boxes(text)):
        for number, found in source:
            said.setdefault(number, {}).update(found)
    return {number: _reading(found) for number, found in sorted(said.items())}


def merged(readings: Iterable[dict[int, Reading]]) -> dict[int, Reading]:
    """Several answers of one tool as one; what a later one says wins."""
    result: dict[int, Reading] = {}
    for answer in readings:
        for number, reading in answer.items():
            known = {name: value for name, value in vars(reading).items() if value is not None}
            result[number] = replace(result.get(number, Reading()), **known)
    return result


def holders(text: str) -> list[Holder]:
    """The processes in `--showpids`; a share of memory that reads `inf` is not used."""
    result = []
    for block in re.split(r"^PID:", text, flags=re.MULTILINE)[1:]:
        pid = re.match(r"\s*(\d+)\s*$", block, re.MULTILINE)
        if pid:
            buses = re.search(r"PCI BUS:(.*)", block)
            used = re.search(r"VRAM USED\s*\(MiB\):\s*(\S+)", block)
            size = number(used[1]) if used else None
            places = tuple(
                address(bus[0]) or "" for bus in _BDF.finditer(buses[1] if buses else "")
            )
            result.append(Holder(int(pid[1]), places, None if size is None else int(size * 2**20)))
    return result


def driver_version(text: str) -> str | None:
    """The version in `--showdriverversion` or in /opt/hyhal/version, suffix kept."""
    found = re.search(r"driver version:\s*(\S+)", text, re.IGNORECASE)
    found = found or re.search(r"^\s*(\d+(?:\.\d+)+\S*)\s*$", text, re.MULTILINE)
    return found[1] if found else None


def numbers(version: str | None) -> tuple[int, ...]:
    """The leading numbers of a version: 6.3.31-V1.5.0a is (6, 3, 31)."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def address(text: str) -> str | None:
    """A PCI address in a text as sysfs writes it: 0000:09:00.0."""
    found = _BDF.search(text)
    return f"{(found[1] or '0')[-4:]:0>4}:{found[2]}".lower() if found else None


def number(text: str | None) -> float | None:
    """The number that a text begins with; `inf`, `nan`, N/A and words are None."""
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", text or "")
    value = float(found[1]) if found else math.inf
    return value if math.isfinite(value) else None


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
            if isinstance(content, dict):
                yield content
            text, at = attempt, end
            break
        else:
            at += 1


def _from_lines(text: str) -> Iterator[tuple[int, Fields]]:
    for found in _LINE.finditer(text):
        name, colon, value = found[2].partition(":")
        level = re.match(r"(pcie clock level)\s+(.*)", found[2])
        if level:
            name, value = level[1], level[2]
        if colon or level:
            yield int(found[1]), {name.strip(): value.strip()}


def _from_table(text: str) -> Iterator[tuple[int, Fields]]:
    names: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if _COLUMNS.match(line):
            names = words
        elif names and len(words) == len(names) and re.fullmatch(r"\d{1,6}", words[0]):
            yield int(words[0]), dict(zip(names[1:], words[1:], strict=True))


def _from_boxes(text: str) -> Iterator[tuple[int, Fields]]:
    for card, name, heat, used, total in _BOXED.findall(text):
        memory = {"vram Total Used Memory (MiB)": used, "vram Total Memory (MiB)": total}
        yield int(card), {"Card Series": name, "Temp": heat, **memory}


def _reading(said: Fields) -> Reading:
    values: dict[str, Any] = {}
    for key, (pattern, factor) in _PATTERNS.items():
        for name, text in said.items():
            if not re.match(pattern, name, re.I) or values.get(key.strip()) is not None:
                continue
            count = number(text)
            if not factor:
                values[key] = text.strip() or None
            elif count is not None and count >= 0:
                values[key.strip()] = count * factor
    whole = {field.name for field in fields(Reading) if "int" in str(field.type)}
    values |= {name: int(values[name]) for name in whole & values.keys()}
    values["health"] = (values.get("health") or "").rpartition(" : ")[2] or None
    values["address"] = address(values.get("address") or "")
    clocks = " ".join(text for name, text in said.items() if name.startswith("pcie clock"))
    speed = re.search(r"([\d.]+GT/s), (x\d+)", clocks)
    values["link"] = f"{speed[1]} {speed[2]}" if speed else None
    return Reading(**values)
