"""Verdicts on the launches of a tree: too large, in disagreement with their kernel, not told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keyelab.checks import Check, check
from keyelab.patching.launches import Launch

_LANES = 32  # WARP_SIZE of ggml, also where a wave has 64 lanes


def above(found: Iterable[Launch], limit: int) -> list[Launch]:
    """The launches of more than `limit` threads whose kernel has no bound of its own."""
    return [launch for launch in found if (launch.threads or 0) > limit and not launch.bound]


def disagreement(launch: Launch) -> str:
    """How a launch disagrees with what its kernel is compiled for; empty when it does not."""
    started = launch.threads or 0
    if not launch.agrees:
        return f"starts {started:,}, compiled for {launch.compiled:,}"
    written = started // _LANES
    if launch.slots is not None and 1 < written < launch.slots:
        return f"reads {launch.slots} partial sums, {written} are written"
    return ""


def uncovered(launch: Launch) -> str:
    """How a launch exceeds the explicit bound of its kernel; empty when it does not."""
    if launch.bound and launch.allowed is not None and (launch.threads or 0) > launch.allowed:
        return f"starts {launch.threads:,}, its bound is {launch.allowed:,}"
    return ""


def remarks(launch: Launch, limit: int) -> str:
    """What there is to say about a launch under a limit; empty for one that is in order."""
    notes = [disagreement(launch), uncovered(launch)]
    if launch.threads is None:
        notes.append(launch.why)
    elif launch.threads > limit:
        bound = f"explicit bound {launch.bound}" if launch.bound else "no explicit bound"
        notes.insert(0, f"{launch.threads:,} threads, {bound}")
    return "; ".join(filter(None, notes))


def launch_checks(found: Sequence[Launch], limit: int) -> list[Check]:
    """The limit, the agreement of kernels with launches, and whether every size can be told.

    Kernels for quantized weights are left to `bound_check`: their sizes come from tables of the
    chip, not from constants. Without any launch nothing is known.
    """
    large = [launch for launch in above(found, limit) if not launch.quantized]
    tables = len(above(found, limit)) - len(large)
    spare = f", but {tables} of kernels for quantized weights" if tables else ""
    apart = [(launch, text) for launch in found if (text := disagreement(launch))]
    dark = [launch for launch in found if launch.threads is None]
    return [
        check(
            f"launches of at most {limit:,} threads",
            not large if found else None,
            expected=f"no block above {limit:,} without an explicit bound",
            found="; ".join(map(str, large)) or f"{len(found)} launches, none above{spare}",
            remedy="the recipe misses these launches: choose another, or report the tree",
        ),
        check(
            "kernels agree with their launches",
            not apart if found else None,
            expected="the block size a kernel is compiled for is the one started",
            found="; ".join(f"{launch.place} {text}" for launch, text in apart)
            or "no disagreement",
            remedy="such a kernel skips columns or adds unwritten sums: change both together",
        ),
        check(
            "the size of every launch can be told",
            None if dark or not found else True,
            expected="a largest block for each launch",
            found="; ".join(map(str, dark)) or f"{len(found)} launches",
            remedy="look at these launches: nothing above says that they are small enough",
        ),
    ]


def bound_check(found: Sequence[Launch], limit: int) -> Check:
    """Whether the bounds on the device allow what the host starts from tables of the chip."""
    beyond = [f"{launch.place} {text}" for launch in found if (text := uncovered(launch))]
    beyond += [
        f"{launch.place} starts {launch.threads:,}, without a bound"
        for launch in above(found, limit)
        if launch.quantized
    ]
    bounds = sum(bool(launch.bound) for launch in found)
    return check(
        "explicit launch bounds cover their launches",
        not beyond if found else None,
        expected="no launch above the bound that the device compiles",
        found="; ".join(beyond) or f"{bounds} launches with a bound, none above",
        remedy="host and device differ about this chip: see the agreement of the kernel families",
    )
