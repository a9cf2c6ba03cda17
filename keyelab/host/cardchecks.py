"""Checks of the cards: on the bus, with a driver, open to this user, seen by the runtime, idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keyelab.checks import Check
from keyelab.facts import DeviceFact
from keyelab.host import lspci, rocminfo, sysfs, vendor
from keyelab.host.inventory import Cards
from keyelab.host.machine import gib
from keyelab.host.observe import Seen
from keyelab.host.tools import Toolchain
from keyelab.host.verdict import verdict
from keyelab.params import EnvCheck

HIDING = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_NODES = {"hygon": ("kfd", "mkfd"), "amd": ("kfd",), "nvidia": ("nvidiactl",)}
_IDS = {"hygon": "1d94", "amd": "1002", "nvidia": "10de"}


def card_checks(
    cards: Cards, seen: Seen, env: Mapping[str, str], params: EnvCheck, found: Toolchain
) -> list[Check]:
    """Every check of the cards; without a card on the bus there is only the first to make."""
    checks = bus_checks(cards, seen, params.expected_cards)
    if not cards.pci:
        return checks
    checks += driver_checks(cards, seen, found.toolkit_version) + node_checks(cards, seen.root)
    if cards.vendor != "nvidia":
        checks += runtime_checks(cards, seen, env, params.probe_arch)
    return checks + use_checks(cards, seen)


def bus_checks(cards: Cards, seen: Seen, expected: int) -> list[Check]:
    """The cards are there, of one kind, with memory regions and a full link."""
    pci, maker = cards.pci or (), {"vendor": _IDS.get(cards.vendor, "1d94")}
    kinds = sorted({f"{card.vendor} {card.device}" for card in pci})
    says = f"{len(pci)}: {', '.join(kinds)}" if pci else "no card that is known"
    there = len(pci) == expected if expected else bool(pci)
    unread = cards.pci is None
    wanted = f"{expected} cards" if expected else "a card that is known"
    found = [
        verdict(
            "cards: on PCIe",
            None if unread else there,
            "the bus cannot be read" if unread else says,
            cards=wanted,
            **maker,
        )
    ]
    if not pci:
        return found
    tree = seen.text("lspci-vvv")
    lost = [card.address for card in pci if card.address in lspci.unassigned(tree)]
    regions = " ".join(lost) or ("all placed" if tree else _why(seen, "lspci-vvv"))
    now = {device.pci_address: device.link for device in cards.devices}
    models = sysfs.known()["hygon"]
    slow = [
        f"{card.address} {link}"
        for card in pci
        if (link := now.get(card.address))
        and (best := card.best_link or models.get(card.device, {}).get("link"))
        and _lanes(link, cards.vendor) < _lanes(best, cards.vendor)
    ]
    known = all(now.get(card.address) for card in pci)
    return [
        *found,
        verdict("cards: one kind", len(kinds) == 1, ", ".join(kinds)),
        verdict("cards: memory regions", not lost if tree else None, regions, **maker),
        verdict(
            "cards: PCIe link",
            False if slow else True if known else None,
            "; ".join(slow) or " ".join(sorted({link or "unknown" for link in now.values()})),
            **maker,
        ),
    ]


def driver_checks(cards: Cards, seen: Seen, toolkit: str | None) -> list[Check]:
    """The driver is loaded, has every card, and is new enough for the toolkit."""
    modules = sysfs.known()["modules"].get(cards.vendor, [])
    loaded = sysfs.text(seen.root / "proc/modules")
    names = [n for n in modules if re.search(rf"^{n} ", loaded or "", re.MULTILINE)]
    unbound = [card.address for card in cards.pci or () if card.driver not in modules]
    fill = {"module": modules[0], "modules": " or ".join(modules), "count": len(cards.pci or ())}
    found = [
        verdict(
            "driver: module",
            bool(names) if loaded else None,
            " ".join(names) or ("not loaded" if loaded else "/proc/modules cannot be read"),
            **fill,
        ),
        verdict(
            "driver: cards bound",
            not unbound,
            f"without a driver: {' '.join(unbound)}" if unbound else "all",
            **fill,
        ),
    ]
    if cards.vendor != "hygon":
        return found
    texts = (seen.text("driver"), sysfs.text(seen.root / "opt/hyhal/version") or "")
    version = next((said for text in texts if (said := vendor.driver_version(text))), None)
    release = re.search(r"\d+\.\d+", toolkit or "")
    least = sysfs.known()["drivers"].get(release[0] if release else "")
    enough = vendor.numbers(version)[:3] >= tuple(least) if least and version else None
    wanted = "a DTK whose least driver is known here"
    if least and release:
        wanted = f"{'.'.join(map(str, least))} or newer for DTK {release[0]}"
    return [*found, verdict("driver: version", enough, version or "not said", least=wanted)]


def node_checks(cards: Cards, root: Path) -> list[Check]:
    """The device nodes are there, and this user may open them for reading and writing."""
    nodes = [root / "dev" / name for name in _NODES[cards.vendor]]
    count = len(cards.pci or ())
    renders = [] if cards.vendor == "nvidia" else sorted((root / "dev/dri").glob("renderD*"))
    missing = [f"/dev/{path.name}" for path in nodes if not path.exists()]
    if cards.vendor != "nvidia" and len(renders) < count:
        missing.append(f"/dev/dri/renderD*: {len(renders)} of {count}")
    there = [path for path in (*nodes, *renders) if path.exists()]
    closed = [(path, error) for path in there if (error := sysfs.opened(path))]
    groups = sorted({path.stat().st_gid for path, _ in closed})
    names = ",".join(f'"$(getent group {gid} | cut -d: -f1)"' for gid in groups)
    join = f"the nodes belong to gid {', '.join(map(str, groups))}: "
    join += f'sudo usermod -aG {names} "$USER", then log in again'
    fill = {
        "nodes": " ".join(f"/dev/{path.name}" for path in nodes)
        + (" and a render node for each card" if cards.vendor != "nvidia" else ""),
        "module": sysfs.known()["modules"][cards.vendor][0],
    }
    refused = "; ".join(f"/{path.relative_to(root)}: {error.strerror}" for path, error in closed)
    return [
        verdict("nodes: there", not missing, "; ".join(missing) or "all", **fill),
        verdict(
            "nodes: open for this user",
            False if closed else None if missing else True,
            refused or ("not all are there" if missing else "all"),
            join=join if groups else "load the driver first",
        ),
    ]


def runtime_checks(cards: Cards, seen: Seen, env: Mapping[str, str], arch: str) -> list[Check]:
    """The runtime lists every card, of the arch that is built for and with the limits it has."""
    limits, count = sysfs.known()["limits"], len(cards.pci or ())
    listed = rocminfo.archs(seen.text("agents")) or [a.arch or "" for a in cards.agents]
    wrong = [
        f"card {agent.index}: {name} {value}"
        for agent in cards.agents
        for name, value in vars(agent).items()
        if name in limits and value not in (None, limits[name])
    ]
    said = any(agent.workgroup_threads for agent in cards.agents)
    arch = arch or next((d.arch for d in cards.devices if d.arch), "one arch")
    counts = " ".join(f"{listed.count(name)} × {name}" for name in sorted(set(listed)))
    good = listed == [arch] * count if listed else None
    fill = {"count": count, "arch": arch}
    item = verdict("runtime: cards listed", good, counts or _why(seen, "agents"), **fill)
    if item.status == "failed" and arch in listed:  # a card that is not listed is not chosen
        item = item.model_copy(update={"status": "warned"})
    found = [item]
    if cards.vendor == "hygon":
        text = "; ".join(wrong) or ("as expected" if said else _why(seen, "rocminfo"))
        good = False if wrong else True if said else None
        found.append(verdict("runtime: limits of a block", good, text, **limits))
    hidden = [name for name in HIDING if name in env]
    values = " ".join(f"{name}={env[name]}" for name in hidden) or "none"
    names = " ".join(hidden)
    return [*found, verdict("runtime: no variable hides cards", not hidden, values, names=names)]


def use_checks(cards: Cards, seen: Seen) -> list[Check]:
    """The sources agree on the cards; they are idle, healthy and whole; nothing is left on them."""
    devices, fill = cards.devices, {"module": sysfs.known()["modules"][cards.vendor][0]}
    told = cards.agents or any(seen.rounds)
    found = [
        verdict(
            "identity: sources agree",
            not cards.disagreements if told else None,
            "; ".join(cards.disagreements) or f"{len(devices)} cards",
            vendor=_IDS[cards.vendor],
        ),
        _each("use: idle", devices, lambda d: None if d.busy is None else not d.busy, _load),
    ]
    if seen.text("pids"):
        held = vendor.holders(seen.text("pids"))
        lines = [
            f"{_size(h.used_bytes)} on {' '.join(h.addresses) or 'unknown cards'}: pid {h.pid} "
            f"({sysfs.command(seen.root, h.pid) or 'its program is unknown'})"
            for h in held
        ]
        answered = "PIDs" in seen.text("pids")
        pids = " ".join(str(holder.pid) for holder in held)
        text = "; ".join(lines) or ("none" if answered else _why(seen, "pids"))
        found.append(verdict("use: processes", not held if answered else None, text, pids=pids))
    if cards.vendor == "nvidia":
        return found
    known = sysfs.holders(seen.root)
    gone = " ".join(map(str, known[1])) if known else ""
    text = "KFD's processes cannot be read here" if known is None else gone or "none"
    found.append(verdict("use: nothing left behind", None if known is None else not gone, text))
    if cards.vendor == "amd":  # rocm-smi has neither
        return found
    return [
        *found,
        _each("use: healthy", devices, lambda d: d.healthy, lambda d: "not healthy", **fill),
        _each(
            "use: whole",
            devices,
            lambda d: None if d.mode is None else d.mode == "Normal",
            lambda d: f"mode {d.mode}",
        ),
    ]


def _lanes(link: str, maker: str) -> tuple[float, ...]:
    """What counts of a link: its lanes, and its speed where that does not fall when idle."""
    speed, lanes = vendor.number(link), vendor.number(link.rpartition("x")[2])
    return (lanes or 0.0,) if maker != "hygon" else (lanes or 0.0, speed or 0.0)


def _each(
    name: str,
    devices: Sequence[DeviceFact],
    good: Callable[[DeviceFact], bool | None],
    says: Callable[[DeviceFact], str],
    **fill: object,
) -> Check:
    """One verdict over all cards: a bad one fails it, else one that is not known."""
    bad = [f"{d.pci_address}: {says(d)}" for d in devices if good(d) is False]
    unknown = [f"{d.pci_address}: unknown" for d in devices if good(d) is None]
    text = "; ".join(bad + unknown) or f"all {len(devices)}"
    return verdict(name, False if bad else None if unknown or not devices else True, text, **fill)


def _load(device: DeviceFact) -> str:
    use = "unknown" if device.use_percent is None else f"{device.use_percent:g}%"
    return f"memory {_size(device.memory_used_bytes)}, use {use}"


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else gib(size_bytes)


def _why(seen: Seen, name: str) -> str:
    return seen.why.get(name, "no answer")
