"""The choice of cards for serving: idle, of one socket, and no more than model and context need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyelab.checks import Check
from keyelab.facts import VISIBLE, DeviceFact
from keyelab.host.reading import gib
from keyelab.host.verdict import verdict
from keyelab.params import EnvCheck

# Not in any log at hand; what llama.cpp allocates to compute with is said at the server's start.
BUFFERS_GIB = 2.0


@dataclass(frozen=True)
class Choice:
    """The chosen cards, and why these or why none."""

    cards: tuple[DeviceFact, ...]
    reason: str

    @property
    def one_socket(self) -> bool | None:
        """Whether they are on one CPU socket; None where that is not known."""
        places = {_socket(device) for device in self.cards}
        if len(places) > 1:  # a socket may have several nodes
            return False if all(place.startswith("socket") for place in places) else None
        return None if len(self.cards) > 1 and "unknown" in places else True


def state_gib(params: EnvCheck) -> float:
    """The KV state of the whole context, GiB."""
    return params.context_tokens * params.state_kib_per_token / 2**20


def need_gib(params: EnvCheck, count: int) -> float:
    """The most that one of so many cards holds: its layers, the projector, the buffers; GiB."""
    layers = params.weights_gib + state_gib(params)
    return layers / count + params.projector_gib + BUFFERS_GIB


def rows(params: EnvCheck, most: int) -> list[dict[str, Any]]:
    """The arithmetic as table rows."""
    state = f"{params.context_tokens:,} tokens × {params.state_kib_per_token:g} KiB"
    parts = [
        ("weights", params.weights_gib, "env_check.weights_gib, over the cards by layers"),
        ("KV state", state_gib(params), f"{state}, over the cards by layers"),
        ("projector", params.projector_gib, "env_check.projector_gib, on one card"),
        ("compute buffers", BUFFERS_GIB, "assumed, on each card"),
    ]
    why = "its share, the projector and the buffers"
    parts += [(f"on each of {n}, at most", need_gib(params, n), why) for n in (1, 2, 4, 8)
              if n <= max(1, most)]  # fmt: skip
    return [{"what": what, "memory": f"{size:.1f} GiB", "because": x} for what, size, x in parts]


def choose(devices: Sequence[DeviceFact], env: Mapping[str, str], params: EnvCheck) -> Choice:
    """Choose cards, of those that `env` lets programs see already; params.cards is an order.

    One socket comes before few cards: between sockets a small copy takes 52 ms instead of 1 µs.
    """
    usable = {str(device.index): device for device in devices if device.index is not None}
    if params.cards:
        names = [name.strip() for name in params.cards.split(",")]
        there = all(name in usable for name in names)
        cards = tuple(usable[name] for name in names) if there else ()
        return Choice(cards, f"env_check.cards is {params.cards}")
    if not params.weights_gib:
        return Choice((), "no model is described: env_check.weights_gib is 0")
    visible = env.get(VISIBLE.get(params.backend, ""))
    if visible is not None:
        names = visible.replace(" ", "").split(",")
        usable = {name: device for name, device in usable.items() if name in names}
    fit = sorted(filter(_free, usable.values()), key=lambda d: (-_free(d), d.index))
    for near in (True, False):
        groups: dict[Any, list[DeviceFact]] = defaultdict(list)
        for device in fit:
            groups[device.arch, _socket(device) if near else ""].append(device)
        for count in range(1, len(fit) + 1):
            least = need_gib(params, count) * 2**30
            for group in groups.values():
                if len(group) >= count and _free(group[count - 1]) >= least:
                    cards = tuple(sorted(group[:count], key=lambda d: str(d.index)))
                    return Choice(cards, f"{count} that hold {gib(least)} each")
    among = "" if visible is None else f", of which {visible or 'none'} are visible"
    return Choice((), f"{len(fit)} of {len(devices)} cards{among} are idle and healthy, too few")


def environment(choice: Choice, backend: str) -> dict[str, str]:
    """The variable that shows programs the chosen cards only; empty when none were chosen."""
    if not choice.cards or backend not in VISIBLE:
        return {}
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if backend == "cuda" else {}
    return {VISIBLE[backend]: ",".join(str(d.index) for d in choice.cards)} | order


def choice_checks(choice: Choice) -> Iterator[Check]:
    """Cards were found that hold the model, on one socket."""
    names = " ".join(f"{d.index} ({d.pci_address})" for d in choice.cards)
    text = f"{names}: {choice.reason}" if names else choice.reason
    yield verdict("choice: cards for serving", bool(names), text)
    if names:
        places = " ".join(sorted({_socket(device) for device in choice.cards}))
        yield verdict("choice: one socket", choice.one_socket, places)


def _socket(device: DeviceFact) -> str:
    if device.socket is not None:
        return f"socket {device.socket}"
    return "unknown" if device.numa_node is None else f"node {device.numa_node}"


def _free(device: DeviceFact) -> int:
    """Bytes to take; none of a card that is not known to be idle, known to be ill, or cut up."""
    fit = device.busy is False and device.healthy is not False and device.mode in (None, "Normal")
    total, used = device.memory_bytes, device.memory_used_bytes
    return total - used if fit and total is not None and used is not None else 0
