"""A verdict on the host: what data/checks.yaml says of a check, with what was found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from keyelab.checks import Check, check
from keyelab.host.reading import Reading, data


def verdict(name: str, ok: bool | None, found: object = "", **filled: object) -> Check:
    """The check of this name; None is unknown, `filled` goes into its texts.

    Where the file has words for what was found (ok, bad, unknown), they are said instead.
    """
    text = data("checks")[name]
    says = text.get("unknown" if ok is None else "ok" if ok else "bad", "{found}")
    return check(
        name,
        ok,
        expected=text["expected"].format(**filled),
        found=says.format(found=found, **filled),
        remedy=text["remedy"].format(**filled),
        warn=text.get("warn", False),
    )


def none_of(name: str, bad: Iterable[object] | None, found: object = "", **filled: object) -> Check:
    """The check of this name that finds nothing bad; None is unknown, and `found` why."""
    said = "; ".join(map(str, bad or ()))
    return verdict(name, None if bad is None else not said, said or found, **filled)


def each(
    name: str,
    cards: Collection[Reading],
    good: Callable[[Reading], bool | None],
    says: Callable[[Reading], object],
    why: str = "",
    **filled: object,
) -> Check:
    """One verdict over all cards: a bad one fails it, else one that is not known."""
    bad = [f"{card.pci_address}: {says(card)}" for card in cards if good(card) is False]
    unsaid = [f"{card.pci_address}" for card in cards if good(card) is None]
    found = bad + ([f"not known of {' '.join(unsaid)}{why and f' ({why})'}"] if unsaid else [])
    ok = False if bad else None if unsaid or not cards else True
    return verdict(name, ok, "; ".join(found) or f"all {len(cards)}", **filled)
