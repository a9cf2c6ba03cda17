"""Runs held against each other: what differs between them, and what it did to the speed.

Repetitions inside one run share its luck: two runs of the same thing on a busy machine differed by
a factor of 2.6 where each had repeated within a few percent. With several runs on a side, runs are
resampled first and then the repetitions in them, so that the interval holds that luck as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError, UsageError
from keyelab.files import read_json, shown

Row = dict[str, Any]
MUST_EQUAL = ("model", "projector", "build", "prompt")
LEAST = 3  # repetitions, before there is an interval
_DRAWS = 4_000
_MEASURES = {  # name: (better is, unit)
    "ms_per_token": "lower", "prefill_tps": "higher",
    "ttft_s": "lower", "token_ms": "lower", "total_s": "lower",
}  # fmt: skip
_NOT_COMPARED = {"run_dir", "verbose", "dry_run", "port"}


def compare(
    runs_a: Sequence[Path], runs_b: Sequence[Path], allow: Collection[str] = ()
) -> dict[str, Any]:
    """Parameters that differ, and the effect on each measure of the sweeps.

    Raises KeyelabError when the runs have another model, projector, build or prompt, unless
    `allow` names it, when one has no sweep, or when the runs of one side differ in parameters.
    """
    for name in allow:
        if name not in MUST_EQUAL:
            raise UsageError(
                f"--allow: expected one of {', '.join(MUST_EQUAL)}, found {name}",
                "keyelab perf --help",
            )
    sides = [[_facts(run) for run in runs] for runs in (runs_a, runs_b)]
    first, others = sides[0][0], [*sides[0][1:], *sides[1]]
    unequal = {
        name: (_identity(first, name), _identity(other, name))
        for other in others
        for name in MUST_EQUAL
        if _identity(first, name) != _identity(other, name)
    }
    refused = {name: pair for name, pair in unequal.items() if name not in allow}
    if refused:
        told = (f"{name} {_short(a)} and {_short(b)}" for name, (a, b) in refused.items())
        raise KeyelabError(
            f"expected runs that differ in what is compared alone, found another {'; '.join(told)}",
            "compare such runs if that is what you mean: "
            + " ".join(f"--allow {name}" for name in refused),
        )
    for runs in (runs_a, runs_b):
        for run in runs[1:]:
            if found := [row["parameter"] for row in _differences(runs[0], run)]:
                raise KeyelabError(
                    f"expected runs of one side with the same parameters, found {shown(run)} with "
                    f"another {', '.join(found)}",
                    "name runs of one set of parameters on each side of --compare",
                )
    told_of = [[run["perf_analysis"] for run in side] for side in sides]
    return {
        "schema": 1,
        "runs": [[shown(run) for run in runs] for runs in (runs_a, runs_b)],
        "allowed": list(unequal),
        "parameters": list(_differences(runs_a[0], runs_b[0])),
        "effects": [
            row
            for kind in ("sweep", "load")
            for row in effects(*([run.get(kind) or [] for run in side] for side in told_of))
        ],
    }


def _facts(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for phase in ("model_fetch", "build", "perf_analysis"):
        path = run / "facts" / f"{phase}.json"
        if not path.is_file():
            raise KeyelabError(
                f"expected the facts of {phase} at {shown(path)}, found none",
                "name two run folders below records/<target>/ that went through all phases",
            )
        found[phase] = read_json(path).get("facts") or {}
    if not found["perf_analysis"].get("sweep") and not found["perf_analysis"].get("load"):
        raise KeyelabError(
            f"expected a sweep in {shown(run)}, found none: nothing was repeated",
            "keyelab run --from perf_analysis --set perf_analysis.sweep=true",
        )
    return found


def _identity(facts: dict[str, Any], name: str) -> Any:
    if name == "build":
        return facts["build"].get("key")
    if name == "prompt":
        return facts["perf_analysis"].get("sweep_prompt")
    return facts["model_fetch"].get("mmproj" if name == "projector" else "model", {}).get("sha256")


def _short(value: Any) -> str:
    return str(value)[:12] if value else "unknown"


def _parameters(run: Path) -> dict[str, Any]:
    path = run / "run.json"
    phases = read_json(path)["phases"] if path.is_file() else []
    return {
        f"{phase['phase']}.{name}": entry["value"]
        for phase in phases
        for name, entry in (phase.get("parameters") or {}).items()
        if name not in _NOT_COMPARED
    }


def _differences(run_a: Path, run_b: Path) -> Iterator[Row]:
    a, b = _parameters(run_a), _parameters(run_b)
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            yield {"parameter": name, "a": a.get(name), "b": b.get(name)}


def effects(a: list[list[Row]], b: list[list[Row]]) -> list[Row]:
    """One row a place (way and depth, or kind and clients) and measure: the ratio b / a of the
    medians with its 95 % bootstrap interval, and a verdict.

    A side is a list of runs, a run a list of rows. Fewer than 3 values on a side give no interval.
    """
    rows = []
    places = dict.fromkeys(_place(row) for run in a for row in run)
    for place in places:
        for name, better in _MEASURES.items():
            one, other = _values(a, place, name), _values(b, place, name)
            if not one or not other:
                continue
            ratio, low, high = bootstrap(one, other)
            rows.append(
                {
                    "place": place,
                    "measure": name,
                    "n": f"{sum(map(len, one))} and {sum(map(len, other))}",
                    "a": _median(one),
                    "b": _median(other),
                    "ratio": ratio,
                    "low": low,
                    "high": high,
                    "verdict": _verdict(low, high, better),
                }
            )
    return rows


def _place(row: Row) -> str:
    if "way" in row:
        return f"{row['way']}, context {row['context_tokens']:,.0f}"
    return f"{row['kind']}, {row['level']} at once"


def _values(side: list[list[Row]], place: str, name: str) -> list[list[float]]:
    """The values of each run that has some."""
    runs = (
        [row[name] for row in run if _place(row) == place and row.get(name) is not None]
        for run in side
    )
    return [values for values in runs if values]


def _median(runs: list[list[float]]) -> float:
    import numpy as np

    return float(np.median(np.concatenate(runs)))


def bootstrap(
    a: list[list[float]], b: list[list[float]]
) -> tuple[float, float | None, float | None]:
    """The ratio of medians b / a and its 95 % interval by resampling; the same every time."""
    import numpy as np

    ratio = _median(b) / _median(a)
    if min(sum(map(len, side)) for side in (a, b)) < LEAST:
        return ratio, None, None
    draw = np.random.default_rng(0)

    def medians(side: list[list[float]]) -> Any:
        chosen = draw.integers(len(side), size=(_DRAWS, len(side)))
        again = [draw.choice(np.asarray(run, float), (_DRAWS, len(run))) for run in side]
        if len(side) == 1:
            return np.median(again[0], axis=1)
        return np.array(
            [np.median(np.concatenate([again[run][n] for run in chosen[n]])) for n in range(_DRAWS)]
        )

    low, high = np.percentile(medians(b) / medians(a), [2.5, 97.5])
    return ratio, float(low), float(high)


def _verdict(low: float | None, high: float | None, better: str) -> str:
    if low is None or high is None:
        return f"unknown: fewer than {LEAST} repetitions"
    if low <= 1 <= high:
        return "no difference that is seen"
    return "b is better" if (high < 1) == (better == "lower") else "b is worse"


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The comparison for a terminal."""
    for name, runs in zip("ab", told["runs"], strict=True):
        yield from (f"{name}  {run}" for run in runs)
    if told["allowed"]:
        yield f"another {', '.join(told['allowed'])}, as allowed"
    if not told["parameters"]:
        yield "no parameter differs: what is seen here is how far two runs of the same lie apart"
    for row in told["parameters"]:
        yield f"  {row['parameter']}: {row['a']!r} -> {row['b']!r}"
    for row in told["effects"]:
        interval = "" if row["low"] is None else f" ({row['low']:.3f} to {row['high']:.3f})"
        yield (
            f"  {row['place']:32} {row['measure']:13} {row['a']:10.4g} -> {row['b']:10.4g}  "
            f"x {row['ratio']:.3f}{interval}, n = {row['n']}: {row['verdict']}"
        )
    if not told["effects"]:
        yield "  the runs have no depth and no number of clients in common"
        return
    yield "  one row in twenty is expected to look like a difference by chance"
    if min(map(len, told["runs"])) == 1:
        yield (
            "  repetitions of one run share its luck: name several runs on each side, comma between"
        )
