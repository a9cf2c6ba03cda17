"""Which cards and threads each of several servers gets: equal shares, and no card twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keyelab.errors import UsageError
from keyelab.facts import VISIBLE, DeviceFact, EnvFacts, ModelFacts
from keyelab.params import Serve


@dataclass(frozen=True)
class Share:
    """What one server gets: cards by PCI address (else as the runtime counts them), threads.

    `environment` makes the cards the only ones it sees; 0 threads is llama-server's choice.
    """

    cards: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    threads: int = 0


def shares(
    params: Serve, backend: str, host: EnvFacts, model: ModelFacts, env: Mapping[str, str]
) -> list[Share]:
    """One share a replica, in the order in which `env` shows the cards.

    Raises UsageError: cards unknown, fewer than replicas, not an even number for each, or too
    small together for the weights; on a CPU fewer cores than replicas.
    """
    count = params.replicas
    if backend not in VISIBLE:
        cores = host.cores
        if count > 1 and cores < count:
            raise UsageError(
                f"expected a core for each of {count} servers, found {cores} cores",
                f"set serve.replicas to {cores} or lower",
            )
        return [Share(threads=params.threads or (cores // count if count > 1 else 0))] * count
    names, known = _visible(backend, host, env)
    if count > 1 and params.devices:
        raise UsageError(
            f"expected serve.devices empty with serve.replicas={count}, found {params.devices}: "
            "each server sees its own cards only, counted from 0",
            "choose the cards with env_check.cards",
        )
    if count > 1 and (not names or len(names) % count):
        fits = [str(n) for n in range(1, len(names) + 1) if len(names) % n == 0] or ["1"]
        raise UsageError(
            f"expected cards that {count} servers share evenly, found {len(names)}"
            + (f" ({', '.join(names)})" if names else ": 01_env_check knows of none"),
            f"serve.replicas can be {' or '.join(fits)}; for other cards: keyelab run --from "
            "env_check --set env_check.cards=0,1,2,3",
        )
    each = len(names) // count
    # as 01_env_check numbers them; the CUDA runtime would put the fastest first
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if backend == "cuda" else {}
    parts = [names[i * each : (i + 1) * each] for i in range(count)]
    for part in parts:
        _require_room(params, [known.get(name) for name in part], model)
    return [
        Share(
            tuple(getattr(known.get(name), "pci_address", None) or name for name in part),
            {VISIBLE[backend]: ",".join(part), **order} if count > 1 else {},
            params.threads,
        )
        for part in parts
    ]


def _visible(
    backend: str, host: EnvFacts, env: Mapping[str, str]
) -> tuple[list[str], dict[str, DeviceFact]]:
    known = {str(one.index): one for one in host.devices if one.index is not None}
    shown = env.get(VISIBLE[backend])
    names = list(known) if shown is None else shown.replace(" ", "").split(",")
    return [name for name in names if name], known


def _require_room(params: Serve, part: Sequence[DeviceFact | None], model: ModelFacts) -> None:
    """Stop when the weights alone are more than the cards hold; unknown memory stops nothing."""
    sizes = [one.memory_bytes if one else None for one in part]
    if not part or None in sizes or params.fit or params.devices or params.extra_args:
        return
    if (total := sum(size or 0 for size in sizes)) < model.model.size_bytes:
        raise UsageError(
            f"expected cards that hold the weights ({model.model.size_bytes / 2**30:.1f} GiB), "
            f"found {len(part)} for each server with {total / 2**30:.1f} GiB together",
            "lower serve.replicas, or give more: keyelab run --from env_check --set "
            "env_check.cards=0,1,2,3",
        )
