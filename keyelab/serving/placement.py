"""Where a server computes: weights, states and projector on the cards, or on the CPU instead.

A server whose weights are all on the CPU answers, is healthy, and logs "offloaded 4/4 layers".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyelab.checks import Check, check
from keyelab.serving.command import ServerPlan
from keyelab.serving.observed import Observed
from keyelab.serving.progress import size_bytes
from keyelab.serving.startup import is_host

# flags that put a part of the model elsewhere because somebody asked for it
_LAYERS = {"-ngl", "--gpu-layers", "--n-gpu-layers", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe",
           "-ot", "--override-tensor"}  # fmt: skip
_PROJECTOR = "--no-mmproj-offload"
_BUFFERS_BYTES = 2 * 2**30  # on each card to compute with; 01_env_check assumes the same
_REMEDY = "read what it says of its devices: grep -E 'device|buffer size' in the server's log"


def checks(plan: ServerPlan, seen: Observed) -> Iterator[Check]:
    """Weights, states, projector, attention, fallbacks, graph splits, memory of the cards."""
    start = seen.start
    asked = bool(_LAYERS & {*plan.options})
    yield _on_device("weights", plan, start.weights_mib, asked)
    yield _on_device("context state", plan, start.state_mib, asked)
    if not _on_cpu(plan):
        yield _devices(plan, seen)
        yield check(
            "layers on the cards",
            None if start.layers is None else start.layers[0] >= start.layers[1],
            expected="all" if not asked else "as serve.extra_args says",
            found="unknown" if start.layers is None else "{} of {}".format(*start.layers),
            remedy="make room (serve.context_tokens, env_check.cards), or set serve.fit to false "
            "so that it says what does not fit",
            warn=asked,
        )
    yield _projector(plan, seen)
    yield _attention(plan, seen)
    yield check(
        "kernel fallbacks",
        None if start.splits is None else not start.fallbacks,
        expected="none",
        found="; ".join(start.fallbacks[:4]) or ("unknown" if start.splits is None else "none"),
        remedy="such an operation runs on the CPU or with more memory: take a llama.cpp that has "
        "it for this card (source_patch.version), or expect the lower speed",
        warn=True,
    )
    if plan.params.split_mode != "tensor":  # its parts are many by design
        yield _splits(plan, seen)
    for index, (card, grown) in enumerate(seen.card_bytes.items()):
        yield _memory(plan, seen, index, card, grown)


def _on_cpu(plan: ServerPlan) -> bool:
    """Whether the model is meant to be on the CPU; the projector may use a card all the same."""
    return plan.backend == "cpu" or plan.params.devices == "none"


def _used(plan: ServerPlan) -> int:
    """How many devices the model is spread over; 0 is unknown."""
    named = plan.params.devices.split(",") if plan.params.devices else plan.cards
    return 1 if plan.params.split_mode == "none" else len(named)


def _on_device(what: str, plan: ServerPlan, sizes: Mapping[str, float], asked: bool) -> Check:
    wanted = {name for name in sizes if is_host(name) == _on_cpu(plan)}
    total, there = sum(sizes.values()), sum(sizes[name] for name in wanted)
    # token embeddings stay on the host in every build: 0.6 of 57 GB, a tenth of the demo model
    good = None if not total else there >= 0.8 * total
    return check(
        what,
        good,
        expected="in memory of the CPU" if _on_cpu(plan) else "on the cards",
        found=", ".join(f"{name} {size:,.2f} MiB" for name, size in sizes.items()) or "unknown",
        remedy=_REMEDY,
        warn=asked and there > 0,
    )


def _devices(plan: ServerPlan, seen: Observed) -> Check:
    """The devices that were asked for, or one for each of the plan's cards."""
    used, params = seen.start.devices(), plan.params
    named = params.devices.split(",") if params.devices else []
    count = _used(plan)
    whole = any("(" in name for name in used)  # Meta(): all devices together, tensor by tensor
    good: bool | None = {*named} == {*used} if named else len(used) == count
    return check(
        "devices",
        None if whole or not count or not seen.start.weights_mib else good,
        expected=params.devices or (f"{count} of the build's devices" if count else "unknown"),
        found=", ".join(used) or ("none" if seen.start.weights_mib else "unknown"),
        remedy=_REMEDY,
    )


def _projector(plan: ServerPlan, seen: Observed) -> Check:
    name = seen.start.projector
    on_cpu = plan.backend == "cpu" or _PROJECTOR in plan.options
    return check(
        "projector's device",
        None if name is None else is_host(name) == on_cpu,
        expected="CPU" if on_cpu else "a card",
        found=name or "unknown",
        remedy="on the CPU a picture takes seconds to minutes: take --no-mmproj-offload and "
        "MTMD_BACKEND_DEVICE away",
    )


def _attention(plan: ServerPlan, seen: Observed) -> Check:
    on, asked = seen.start.flash_attention, plan.params.flash_attention
    return check(
        "flash attention",
        None if on is None else asked == "auto" or on == (asked == "on"),
        expected="on or off" if asked == "auto" else asked,
        found={True: "on", False: "off", None: "unknown"}[on],
        remedy="keyelab stop, then: keyelab run --from serve",
    )


def _splits(plan: ServerPlan, seen: Observed) -> Check:
    """One part of the graph a device, and one for the embeddings on the CPU."""
    most = len(seen.start.devices() or plan.cards) + 1
    parts = (seen.start.splits, seen.start.projector_splits)
    found = " and ".join("unknown" if n is None else str(n) for n in parts)
    return check(
        "graph splits",
        None if None in parts else all(n is not None and n <= most for n in parts),
        expected=f"at most {most}, of the projector too",
        found=found,
        remedy="each further one is an operation that the card cannot do and the CPU does, with "
        "a copy there and back at every token",
        warn=True,
    )


def _memory(plan: ServerPlan, seen: Observed, index: int, card: str, grown: int | None) -> Check:
    """What a card holds more than before, against the plan of 01_env_check."""
    share = size_bytes([plan.model]) / (_used(plan) or len(seen.card_bytes))
    states = [size for name, size in seen.start.state_mib.items() if not is_host(name)]
    state = states[index] if index < len(states) else max(states, default=0.0)
    planned = share + size_bytes([plan.mmproj]) + state * 2**20 + _BUFFERS_BYTES
    return check(
        f"memory of card {card}",
        None if grown is None else grown <= planned,
        expected=f"at most {planned / 2**30:.1f} GiB: weights, projector, states, 2 GiB to compute",
        found="unknown" if grown is None else f"{grown / 2**30:.1f} GiB more than before",
        remedy="lower serve.ubatch_tokens or serve.image_max_tokens, or give it more cards",
        warn=True,
    )
