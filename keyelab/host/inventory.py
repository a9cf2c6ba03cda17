"""One list of cards from what the bus, the runtime and the vendor's tool say, by PCI address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyelab.facts import DeviceFact
from keyelab.host import lspci, nvidia, rocminfo, sysfs, vendor
from keyelab.host.machine import gib
from keyelab.host.observe import Seen
from keyelab.host.rocminfo import Agent
from keyelab.host.sysfs import PciCard

BUSY_PERCENT = 5.0


@dataclass(frozen=True)
class Cards:
    """The cards by address, what each source said of them, and where sources disagree."""

    devices: tuple[DeviceFact, ...] = ()
    pci: tuple[PciCard, ...] | None = None
    agents: tuple[Agent, ...] = ()
    disagreements: tuple[str, ...] = ()

    @property
    def vendor(self) -> str:
        """hygon, amd or nvidia; '' when the bus shows no card."""
        return self.pci[0].vendor if self.pci else ""


def join(seen: Seen) -> Cards:
    """Join every source by PCI address; never by position, which differs between them."""
    on_bus = _on_bus(seen)
    agents = rocminfo.agents(seen.text("rocminfo")) or sysfs.agents(seen.root)
    often = vendor.merged(seen.rounds)
    once = vendor.merged(vendor.read(seen.text(name)) for name in _ONCE)
    said = {n: r for n, r in vendor.merged([once, often]).items() if vars(r) != vars(_NOTHING)}
    places = {card.address for card in on_bus or ()}
    by_number = {n: _place(r.address, places) for n, r in said.items() if r.address}
    if len(said) == len(places) == 1:  # one card cannot be taken for another
        by_number = dict.fromkeys(said, next(iter(places)))
    by_agent = {_place(agent.address, places): agent for agent in agents if agent.address}
    numbers = {place: n for n, place in by_number.items()}
    compute = {row["index"]: row for row in nvidia.rows(seen.text("query-3"))}
    devices = []
    for place in sorted(places | set(numbers) | set(by_agent)):
        number = numbers.get(place)
        reading = said.get(number, _NOTHING) if number is not None else _NOTHING
        card = next((card for card in on_bus or () if card.address == place), None)
        row = compute.get(str(number), {})
        agent = by_agent.get(place)
        index = agent.index if agent else number if row else None
        facts = _facts(card, agent, reading, seen.root)
        if row:
            facts |= {"arch": f"sm_{row['compute_cap'].replace('.', '')}", "index": index}
            facts["driver"] = f"nvidia {row['driver_version']}"
        rounds = [answer.get(number, _NOTHING) for answer in seen.rounds if number is not None]
        devices.append(DeviceFact(pci_address=place, busy=busy(rounds), **facts))
    sources = {"the bus": places if on_bus is not None else None}
    sources["the runtime"] = set(by_agent) if agents else None
    sources[seen.tool or "the kernel"] = set(numbers) if said else None
    unnamed = [f"{seen.tool} gives no PCI address of card {n}" for n in said.keys() - by_number]
    return Cards(
        tuple(devices),
        None if on_bus is None else tuple(on_bus),
        tuple(agents),
        (*_differences(sources), *unnamed),
    )


def busy(rounds: list[vendor.Reading]) -> bool | None:
    """Over 5% of memory or of time in two samples of three; None when they do not settle it."""
    votes = [_vote(reading) for reading in rounds]
    for answer in (True, False):
        if votes.count(answer) >= 2:
            return answer
    return None


def _vote(reading: vendor.Reading) -> bool | None:
    total, used = reading.memory_bytes, reading.memory_used_bytes
    share = 100 * used / total if total and used is not None else reading.memory_percent
    shares = [value if value is None or value <= 100 else None for value in
              (share, reading.use_percent)]  # fmt: skip
    if any(value is not None and value > BUSY_PERCENT for value in shares):
        return True
    return None if None in shares else False


_NOTHING = vendor.Reading()
_ONCE = ("product", "table", "clocks", "health", "numa", "bus")


def _on_bus(seen: Seen) -> list[PciCard] | None:
    cards = sysfs.cards(seen.root)
    if cards or not seen.text("lspci"):
        return cards
    makers = sysfs.known()["vendors"]
    return [
        PciCard(d.address, makers[d.vendor], d.device, sysfs.bound_to(seen.root, d.address))
        for d in lspci.devices(seen.text("lspci"))
        if sysfs.is_card(d.vendor, d.device, d.kind)
    ]


def _place(address: str | None, places: set[str]) -> str:
    """The address on the bus; rocminfo leaves out the domain, so its rest is enough if unique."""
    same = [place for place in places if place[-7:] == (address or "")[-7:]]
    return same[0] if address not in places and len(same) == 1 else address or ""


def _facts(
    card: PciCard | None, agent: Agent | None, reading: vendor.Reading, root: Path
) -> dict[str, Any]:
    model = sysfs.known()["hygon"].get(card.device, {}) if card and card.vendor == "hygon" else {}
    bus, run = card or PciCard("", "", ""), agent or Agent(0)
    use = reading.use_percent
    node = _first(reading.numa_node, bus.numa_node)
    return {
        "name": _first(reading.name, model.get("name"), run.name),
        "arch": _first(run.arch, model.get("arch")),
        "memory_bytes": _first(reading.memory_bytes, run.memory_bytes),
        "index": agent.index if agent else None,
        "driver": bus.driver,
        "numa_node": node,
        "socket": sysfs.socket_of(root, node),
        "link": _first(bus.link, reading.link),
        "memory_used_bytes": reading.memory_used_bytes,
        "use_percent": use if use is None or use <= 100 else None,
        "temperature_c": reading.temperature_c,
        "power_w": reading.power_w,
        "mode": reading.mode,
        "healthy": None if reading.health is None else reading.health.lower() == "healthy",
    }


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _differences(sources: Mapping[str, set[str] | None]) -> list[str]:
    told = {name: places for name, places in sources.items() if places is not None}
    every = set().union(*told.values()) if told else set()
    return [
        f"{name} lacks {' '.join(sorted(every - places))}"
        for name, places in told.items()
        if every - places
    ]


def rows(devices: tuple[DeviceFact, ...]) -> list[dict[str, Any]]:
    """The cards as table rows."""
    return [
        {
            "card": d.pci_address,
            "index": d.index,
            "model": d.name,
            "arch": d.arch,
            "NUMA node": d.numa_node,
            "memory": gib(d.memory_bytes) if d.memory_bytes else None,
            "used": None if d.memory_used_bytes is None else gib(d.memory_used_bytes),
            "use %": d.use_percent,
            "°C": d.temperature_c,
            "link": d.link,
            "mode": d.mode,
            "busy": d.busy,
        }
        for d in devices
    ]
