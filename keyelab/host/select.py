"""The choice of cards for serving: idle, of one socket, and no more than model and context need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.checks import Check
from keyelab.facts import DeviceFact
from keyelab.host.machine import gib
from keyelab.host.verdict import verdict
from keyelab.params import EnvCheck

VARIABLES = {"hip": "HIP_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}
# Not in any log at hand; what llama.cpp allocates to compute with is said at the server's start.
BUFFERS_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Need:
    """What a model takes of the cards' memory, bytes."""

    weights_bytes: float
    state_bytes: float
    projector_bytes: float

    def a_card(self, count: int) -> float:
        """The most that one of so many cards holds: its layers, the projector, the buffers."""
        share = (self.weights_bytes + self.state_bytes) / count
        return share + self.projector_bytes + BUFFERS_BYTES

    def rows(self, params: EnvCheck, most: int) -> list[dict[str, Any]]:
        """The arithmetic as table rows."""
        state = f"{params.context_tokens:,} tokens × {params.state_kib_per_token:g} KiB"
        parts = [
            ("weights", self.weights_bytes, "env_check.weights_gib, over the cards by layers"),
            ("KV state", self.state_bytes, f"{state}, over the cards by layers"),
            ("projector", self.projector_bytes, "env_check.projector_gib, on one card"),
            ("compute buffers", BUFFERS_BYTES, "assumed, on each card"),
        ]
        counts = [n for n in (1, 2, 4, 8) if n <= max(1, most)]
        why = "its share, the projector and the buffers"
        parts += [(f"on each of {n}, at most", self.a_card(n), why) for n in counts]
        return [{"what": name, "memory": gib(size), "because": why} for name, size, why in parts]


@dataclass(frozen=True)
class Choice:
    """The chosen cards, and why these or why none; `one_socket` is None where it is not known."""

    cards: tuple[DeviceFact, ...]
    reason: str
    one_socket: bool | None = None


def need(params: EnvCheck) -> Need:
    """The need of the model that the parameters describe."""
    state = params.context_tokens * params.state_kib_per_token * 1024
    return Need(params.weights_gib * 2**30, state, params.projector_gib * 2**30)


def choose(
    devices: Sequence[DeviceFact], wanted: Need, env: Mapping[str, str], params: EnvCheck
) -> Choice:
    """Choose cards, of those that `env` lets programs see already; params.cards is an order.

    One socket comes before few cards: between sockets a small copy takes 52 ms instead of 1 µs.
    """
    visible, named = env.get(VARIABLES.get(params.backend, "")), params.cards
    usable = [d for d in devices if d.index is not None]
    if not named and not wanted.weights_bytes:
        return Choice((), "no model is described: env_check.weights_gib is 0")
    if named:
        wished = [d for part in named.split(",") for d in usable if str(d.index) == part.strip()]
        cards = tuple(wished) if len(wished) == len(named.split(",")) else ()
        return Choice(cards, f"env_check.cards is {named}", _one_socket(cards))
    if visible is not None:
        usable = [d for d in usable if str(d.index) in visible.replace(" ", "").split(",")]
    fit = sorted(
        (d for d in usable if may_serve(d) and _free(d)), key=lambda d: (-_free(d), d.index)
    )
    for near in (True, False):
        groups: dict[Any, list[DeviceFact]] = defaultdict(list)
        for device in fit:
            groups[device.arch, _socket(device) if near else ""].append(device)
        for count in range(1, len(fit) + 1):
            for group in groups.values():
                least = wanted.a_card(count)
                if len(group) >= count and _free(group[count - 1]) >= least:
                    cards = tuple(sorted(group[:count], key=lambda d: str(d.index)))
                    return Choice(cards, f"{count} that hold {gib(least)} each", _one_socket(cards))
    among = "" if visible is None else f", of which {visible or 'none'} are visible"
    return Choice((), f"{len(fit)} of {len(devices)} cards{among} are idle and healthy, too few")


def may_serve(device: DeviceFact) -> bool:
    """Known to be idle, not known to be ill, and not cut into parts."""
    return device.busy is False and device.healthy is not False and device.mode in (None, "Normal")


def environment(choice: Choice, backend: str) -> dict[str, str]:
    """The variable that shows programs the chosen cards only; empty when none were chosen."""
    if not choice.cards or backend not in VARIABLES:
        return {}
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if backend == "cuda" else {}
    return {VARIABLES[backend]: ",".join(str(d.index) for d in choice.cards)} | order


def choice_checks(choice: Choice) -> list[Check]:
    """Cards were found that hold the model, on one socket."""
    names = " ".join(f"{d.index} ({d.pci_address})" for d in choice.cards)
    text = f"{names}: {choice.reason}" if names else choice.reason
    found = [verdict("choice: cards for serving", bool(choice.cards), text)]
    if choice.cards:
        places = " ".join(sorted({" ".join(map(str, _socket(d))) for d in choice.cards}))
        found.append(verdict("choice: one socket", choice.one_socket, places))
    return found


def _socket(device: DeviceFact) -> tuple[str, int | None]:
    known = device.socket is not None
    return ("socket", device.socket) if known else ("node", device.numa_node)


def _one_socket(cards: Sequence[DeviceFact]) -> bool | None:
    places = {_socket(device) for device in cards}
    if len(cards) > 1 and len(places) > 1:
        return False if all(kind == "socket" for kind, _ in places) else None
    return None if len(cards) > 1 and ("node", None) in places else True


def _free(device: DeviceFact) -> int:
    used = device.memory_used_bytes
    return (device.memory_bytes or 0) - used if used is not None else 0
