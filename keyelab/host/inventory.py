"""The cards of a host: its tools are asked, and what they say is joined by PCI address.

Each tool has a time-out, and what it says is kept word for word.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyelab import shell
from keyelab.errors import KeyelabError
from keyelab.facts import DeviceFact
from keyelab.host import answers, sysfs
from keyelab.host.reading import NOTHING, Reading, data, first, gib, merged

BUSY_PERCENT = 5.0
TIMEOUT_S = 30.0
ROUNDS, PAUSE_S = 3, 0.5
# hy-smi also sets clocks and power, injects errors, resets cards and unloads the driver
_READS = re.compile(r"--show\w+|--json|--healthcheck|vram")


@dataclass(frozen=True)
class Seen:
    """What was said, by a short name ('' where nothing was), why no more, and the samples taken."""

    root: Path
    tool: str = ""
    said: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    why: dict[str, str] = field(default_factory=lambda: defaultdict(lambda: "no tool to ask"))
    rounds: list[dict[int, Reading]] = field(default_factory=list)


def look(
    backend: str,
    env: Mapping[str, str],
    root: Path,
    log: Path,
    on_progress: Callable[[float | None, str], None] = lambda fraction, text: None,
    pause_s: float = PAUSE_S,
) -> Seen:
    """Ask everything that there is to ask for a backend; a tool that fails has said nothing.

    The answers are kept below the folder of `log`, in host/, under the name of `log`. Without the
    vendor's tool the samples are taken from /sys.
    """
    if backend == "cpu":
        return Seen(root)
    tool, asks = "nvidia-smi", data("cards")["asks"]
    once, often = {"lspci": ["lspci", "-D", "-vvv"]}, {"query": answers.QUERY}
    if backend == "hip":
        tools = ("hy-smi", str(root / "opt/hyhal/bin/hy-smi"), "rocm-smi")
        tool = next((name for name in tools if shell.find(name, env)), "")
        once |= {name: [tool, *words.split()] for name, words in asks["once"].items() if tool}
        once["rocminfo"] = ["rocminfo"]
        often = {name: [tool, *words.split()] for name, words in asks["often"].items() if tool}
    seen = Seen(root, tool)
    steps = len(once) + ROUNDS * len(often)

    def ask(name: str, words: list[str]) -> str:
        on_progress(len(seen.said) / steps, name)
        kept = log.parent / "host" / f"{log.stem}-{name}.log"
        seen.said[name], seen.why[name] = _answer(words, env, kept)
        return seen.said[name]

    for name, words in once.items():
        ask(name, words)
    for number in range(ROUNDS):
        time.sleep(pause_s if number else 0)
        texts = [ask(f"{name}-{number + 1}", words) for name, words in often.items()]
        kernel = dict(enumerate(sysfs.cards(root) or ()))
        seen.rounds.append(merged(map(answers.read, texts)) if often else kernel)
    return seen


def _answer(words: list[str], env: Mapping[str, str], log: Path) -> tuple[str, str]:
    if Path(words[0]).name in ("hy-smi", "rocm-smi"):
        wrong = [word for word in words[1:] if not _READS.fullmatch(word)]
        if wrong:
            raise ValueError(f"{words[0]} is only asked questions, not {wrong[0]}")
    log.unlink(missing_ok=True)
    try:
        result = shell.run(words, env=env, log=log, timeout_s=TIMEOUT_S, check=False)
    except (KeyelabError, OSError) as error:
        return "", getattr(error, "message", str(error))
    # with an error its answer may still be there, as rocminfo's is after a warning
    why = f"exit status {result.returncode}" if result.returncode else "it does not say"
    return result.output, why if result.output.strip() else f"{why}, it printed nothing"


@dataclass(frozen=True)
class Cards:
    """The cards by address, those on the bus (None: it cannot be read), and the disagreements."""

    seen: Seen
    devices: tuple[Reading, ...] = ()
    on_bus: tuple[Reading, ...] | None = None
    disagreements: tuple[str, ...] = ()

    @property
    def vendor(self) -> str:
        """hygon, amd or nvidia; '' when the bus shows no card."""
        return str(self.on_bus[0].vendor) if self.on_bus else ""


def join(seen: Seen) -> Cards:
    """Join every source by PCI address; never by position, which differs between them."""
    on_bus = sysfs.cards(seen.root)
    agents = answers.agents(seen.said["rocminfo"]) or sysfs.agents(seen.root)
    once = merged(answers.read(text) for name, text in seen.said.items() if name != "pids")
    said = {n: r for n, r in merged([once, *seen.rounds]).items() if r != NOTHING}
    by_bus = {str(card.pci_address): card for card in on_bus or ()}
    by_agent = {_place(agent, by_bus): agent for agent in agents if agent.pci_address}
    numbers = {_place(r, by_bus): n for n, r in said.items() if r.pci_address}
    if len(said) == len(by_bus) == 1:  # one card cannot be taken for another
        numbers = dict(zip(by_bus, said, strict=True))
    devices = []
    for place in sorted({*by_bus, *by_agent, *numbers}):
        number, card = numbers.get(place, -1), by_bus.get(place, NOTHING)
        told = first(said.get(number, NOTHING), by_agent.get(place, NOTHING), card)
        more = {
            "pci_address": place,
            "link": card.link or told.link,
            "socket": sysfs.socket_of(seen.root, told.numa_node),
            "busy": busy(answer.get(number, NOTHING) for answer in seen.rounds),
        }
        devices.append(told.model_copy(update=more))
    sources = {"the bus": set(by_bus)} if on_bus is not None else {}
    sources |= {"the runtime": set(by_agent)} if agents else {}
    sources |= {seen.tool or "the kernel": set(numbers)} if said else {}
    every = {str(device.pci_address) for device in devices}
    differ = [
        f"{source} lacks {' '.join(sorted(every - places))}"
        for source, places in sources.items()
        if every - places
    ]
    nameless = said.keys() - numbers.values()
    differ += [f"{seen.tool} gives no PCI address of card {number}" for number in nameless]
    found = None if on_bus is None else tuple(on_bus)
    return Cards(seen, tuple(devices), found, tuple(differ))


def busy(rounds: Iterable[Reading]) -> bool | None:
    """Over 5% of memory or of time in two samples of three; None when they do not settle it."""
    votes = [_vote(reading) for reading in rounds]
    return next((answer for answer in (True, False) if votes.count(answer) >= 2), None)


def _vote(reading: Reading) -> bool | None:
    total, used = reading.memory_bytes, reading.memory_used_bytes
    share = 100 * used / total if total and used is not None else reading.memory_percent
    shares = (share, reading.use_percent)
    if any(value is not None and value > BUSY_PERCENT for value in shares):
        return True
    return None if None in shares else False


def _place(reading: Reading, places: Collection[str]) -> str:
    """The address on the bus; rocminfo leaves out the domain, so its rest is enough if unique."""
    said = reading.pci_address or ""
    same = [place for place in places if place[-7:] == said[-7:]]
    return same[0] if said not in places and len(same) == 1 else said


def rows(devices: Iterable[DeviceFact]) -> list[dict[str, Any]]:
    """The cards as table rows."""
    return [
        {
            "card": d.pci_address,
            "index": d.index,
            "model": d.name,
            "arch": d.arch,
            "NUMA node": d.numa_node,
            "memory": None if d.memory_bytes is None else gib(d.memory_bytes),
            "used": None if d.memory_used_bytes is None else gib(d.memory_used_bytes),
            "use %": None if d.use_percent is None else f"{d.use_percent:g}",
            "°C": None if d.temperature_c is None else f"{d.temperature_c:g}",
            "link": d.link,
            "mode": d.mode,
            "busy": d.busy,
        }
        for d in devices
    ]
