"""What one source says of one card, in the words of the facts, and several sources as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, field_validator

from keyelab.facts import DeviceFact

_BDF = re.compile(r"\b(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])\b", re.IGNORECASE)


class Reading(DeviceFact):
    """What a source says of a card, with what only checks ask for; None where it does not.

    `vendor` is hygon, amd or nvidia; `device` is the PCI device id, lower-case hex.
    """

    model_config = ConfigDict(frozen=True)

    vendor: str | None = None
    device: str | None = None
    best_link: str | None = None
    memory_percent: float | None = None
    workgroup_threads: int | None = None
    wavefront_lanes: int | None = None
    lds_bytes: int | None = None

    @field_validator("use_percent", "memory_percent")
    @classmethod
    def _in_range(cls, value: float | None) -> float | None:
        return value if value is not None and 0 <= value <= 100 else None


NOTHING = Reading()


@cache
def data(name: str) -> dict[str, Any]:
    """The content of data/<name>.yaml."""
    path = Path(__file__).parent / "data" / f"{name}.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def first(*readings: Reading) -> Reading:
    """Several readings of a card as one; what an earlier one says wins."""
    said: dict[str, Any] = {}
    for reading in reversed(readings):
        said |= reading.model_dump(exclude_none=True)
    return Reading(**said)


def merged(answers: Iterable[Mapping[int, Reading]]) -> dict[int, Reading]:
    """Several answers of one tool as one, by its number of the card; what a later one says wins."""
    result: dict[int, Reading] = {}
    for answer in answers:
        for number, reading in answer.items():
            result[number] = first(reading, result.get(number, NOTHING))
    return result


def address(text: str) -> str | None:
    """A PCI address in a text as sysfs writes it: 0000:09:00.0."""
    found = _BDF.search(text)
    return f"{(found[1] or '0')[-4:]:0>4}:{found[2]}".lower() if found else None


def gib(size_bytes: float | None) -> str:
    """Bytes as GiB with one decimal."""
    return "unknown" if size_bytes is None else f"{size_bytes / 2**30:.1f} GiB"


def bdf(number: int, domain: int = 0) -> str:
    """The PCI address of rocminfo's BDFID or of KFD's location_id, which leave out the domain."""
    bus, place = number >> 8 & 0xFF, number & 0xFF
    return f"{domain & 0xFFFF:04x}:{bus:02x}:{place >> 3:02x}.{place & 7}"


def number(text: str | None) -> float | None:
    """The number that a text begins with; `inf`, `nan`, N/A, words and absurd ones are None."""
    found = re.match(r"\s*(-?\d{1,15}(?:\.\d{1,15})?)(?!\d)", text or "")
    return float(found[1]) if found else None
