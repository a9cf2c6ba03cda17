"""Checks of the cards: on the bus, with a driver, open to this user, seen by the runtime, idle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from keyelab.checks import Check
from keyelab.host import answers, sysfs
from keyelab.host.inventory import Cards
from keyelab.host.machine import numbers
from keyelab.host.reading import Reading, data, gib
from keyelab.host.verdict import each, none_of, verdict
from keyelab.params import EnvCheck

HIDING = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
Words = Mapping[str, Any]


def card_checks(
    cards: Cards, env: Mapping[str, str], params: EnvCheck, toolkit: str | None
) -> Iterator[Check]:
    """Every check of the cards, for a version of the toolkit.

    Without a card on the bus there is only the first to make.
    """
    maker, limits = data("cards")["vendors"][cards.vendor or "hygon"], data("cards")["limits"]
    pci, expected = cards.on_bus, params.expected_cards
    arch = params.probe_arch or next((d.arch for d in cards.devices if d.arch), "one arch")
    words = {"count": len(pci or ()), "arch": arch, **maker, **limits}
    kinds = sorted({f"{card.vendor} {card.device}" for card in pci or ()})
    there = None if pci is None else len(pci) == expected if expected else bool(pci)
    says = f"{len(pci)}: {', '.join(kinds)}" if pci else "no card that is known"
    wanted = f"{expected} cards" if expected else "a card that is known"
    yield verdict("cards: on PCIe", there, says, cards=wanted, **words)
    if pci:
        yield verdict("cards: one kind", len(kinds) == 1, ", ".join(kinds))
        yield from link_checks(cards, words)
        yield from driver_checks(cards, toolkit, words)
        yield from node_checks(cards, words)
        if cards.vendor != "nvidia":
            yield from runtime_checks(cards, env, words)
        yield from use_checks(cards, words)


def link_checks(cards: Cards, words: Words) -> Iterator[Check]:
    """Every card has its memory regions and a full link."""

    def full(card: Reading) -> bool | None:
        if not card.link or not card.best_link:
            return None
        lanes, best = (link.rpartition("x")[2] for link in (card.link, card.best_link))
        # the speed of other makers' links falls when they are idle
        return card.link == card.best_link if card.vendor == "hygon" else lanes == best

    tree, places = cards.seen.said["lspci"], {card.pci_address for card in cards.on_bus or ()}
    lost = [place for place in answers.unassigned(tree) if place in places] if tree else None
    yield none_of("cards: memory regions", lost, cards.seen.why["lspci"], **words)
    yield each("cards: PCIe link", cards.devices, full, lambda card: card.link, **words)


def driver_checks(cards: Cards, toolkit: str | None, words: Words) -> Iterator[Check]:
    """The driver is loaded, has every card, and is new enough for the toolkit."""
    root, modules = cards.seen.root, words["modules"].split()
    loaded = sysfs.text(root / "proc/modules")
    names = re.findall(rf"^({'|'.join(modules)}) ", loaded or "", re.MULTILINE)
    yield verdict("driver: module", bool(names) if loaded else None, " ".join(names), **words)
    unbound = [card.pci_address for card in cards.on_bus or () if card.driver not in modules]
    yield none_of("driver: cards bound", unbound, **words)
    if cards.vendor == "hygon":
        texts = (cards.seen.said["driver"], sysfs.text(root / "opt/hyhal/version") or "")
        version = next((said for text in texts if (said := answers.driver_version(text))), None)
        release = next(iter(re.findall(r"\d+\.\d+", toolkit or "")), "unknown")
        least = data("cards")["drivers"].get(release)
        known = numbers(version) and least
        enough = numbers(version) >= numbers(least) if known else None
        fill = {"least": least or "unknown", "release": release}
        yield verdict("driver: version", enough, version or "not said", **fill)


def node_checks(cards: Cards, words: Words) -> Iterator[Check]:
    """The device nodes are there, and this user may open them for reading and writing."""
    root, more = cards.seen.root, ""
    paths = [root / name.lstrip("/") for name in words["nodes"].split()]
    missing = [f"/dev/{path.name}" for path in paths if not path.exists()]
    if cards.vendor != "nvidia":
        more, renders = " and a render node for each card", sorted(root.glob("dev/dri/renderD*"))
        paths += renders
        if len(renders) < words["count"]:
            missing.append(f"/dev/dri/renderD*: {len(renders)} of {words['count']}")
    yield none_of("nodes: there", missing, more=more, **words)
    closed = {p: why for p in paths if p.exists() and (why := sysfs.refused(p))}
    refused = [f"/{path.relative_to(root)}: {why}" for path, why in closed.items()]
    gids = ",".join(map(str, sorted({path.stat().st_gid for path in closed})))
    join = f'the nodes belong to gid {gids}: `sudo usermod -aG {gids} "$USER"`, then log in again'
    how = join if gids else "load the driver first"
    yield none_of("nodes: open for this user", refused or (None if missing else []), join=how)


def runtime_checks(cards: Cards, env: Mapping[str, str], words: Words) -> Iterator[Check]:
    """The runtime lists every card, of the arch that is built for and with the limits it has."""
    limits, arch, why = data("cards")["limits"], words["arch"], cards.seen.why["rocminfo"]

    def differs(card: Reading) -> str:
        said = {name: getattr(card, name) for name in limits}
        return " ".join(f"{n} {v}" for n, v in said.items() if v not in (None, limits[n]))

    def as_known(card: Reading) -> bool | None:
        return False if differs(card) else None if card.workgroup_threads is None else True

    listed = [str(card.arch) for card in cards.devices if card.index is not None]
    counts = " ".join(f"{listed.count(name)} × {name}" for name in sorted(set(listed)))
    good = listed == [arch] * words["count"] if listed else None
    item = verdict("runtime: cards listed", good, counts or why, **words)
    if item.status == "failed" and arch in listed:  # a card that is not listed is not chosen
        item = item.model_copy(update={"status": "warned"})
    yield item
    if cards.vendor == "hygon":
        yield each("runtime: limits of a block", cards.devices, as_known, differs, why, **words)
    hidden = [name for name in HIDING if name in env]
    values = [f"{name}={env[name]}" for name in hidden]
    yield none_of("runtime: no variable hides cards", values, names=" ".join(hidden))


def use_checks(cards: Cards, words: Words) -> Iterator[Check]:
    """The sources agree on the cards; they are idle, healthy and whole; nothing is left on them."""

    def load(card: Reading) -> str:
        use = "unknown" if card.use_percent is None else f"{card.use_percent:g}%"
        return f"memory {gib(card.memory_used_bytes)}, use {use}"

    def idle(card: Reading) -> bool | None:
        return None if card.busy is None else not card.busy

    def whole(card: Reading) -> bool | None:
        return None if card.mode is None else card.mode == "Normal"

    seen, devices = cards.seen, cards.devices
    told = any(seen.rounds) or any(card.index is not None for card in devices)
    yield none_of("identity: sources agree", cards.disagreements if told else None, **words)
    yield each("use: idle", devices, idle, load, seen.why["use-3"], **words)
    if said := seen.said["pids"]:
        held = answers.holders(said)
        programs = {pid: sysfs.command(seen.root, pid) or "its program is unknown" for pid in held}
        lines = [f"{held[pid]}: pid {pid} ({programs[pid]})" for pid in held]
        pids = " ".join(map(str, held))
        yield none_of("use: processes", lines if "PIDs" in said else None, said, pids=pids)
    if cards.vendor != "nvidia":
        yield none_of("use: nothing left behind", sysfs.stranded(seen.root))
    if cards.vendor == "hygon":  # rocm-smi has neither
        why = seen.why["health"], seen.why["table"]
        yield each("use: healthy", devices, lambda d: d.healthy, lambda d: "not healthy", why[0])
        yield each("use: whole", devices, whole, lambda d: f"mode {d.mode}", why[1])
