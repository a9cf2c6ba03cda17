"""A run as one row of a table, from its run.json alone."""

from __future__ import annotations

import math
import stat
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from keyelab.errors import KeyelabError
from keyelab.files import sha256_file
from keyelab.record import run as records
from keyelab.record.fault import Fault, fault_of
from keyelab.record.interrupted import state
from keyelab.record.run import Run
from keyelab.record.seal import SUMS

LARGEST_BYTES = 64 << 20  # a run.json beyond it is none of ours


@dataclass(frozen=True)
class Speed:
    """Decode speed (tokens/s), the median of n, and how it was measured."""

    decode_tps: float
    n: int
    way: str
    depth_tokens: int | None


@dataclass
class Row:
    """What the index shows of a run; '' and None are unknown.

    `status` is a run's, or unreadable; `notes` say what is wrong with the record, `twin` names the
    row of the same run that is counted in its place.
    """

    folder: Path
    status: str = "unreadable"
    run_id: str = ""
    target: str = ""
    started: str = ""
    duration_s: float | None = None
    dry_run: bool = False
    edited: bool = False
    original: str = ""
    twin: Path | None = None
    model: str = ""
    model_sha256: str = ""
    host: str = ""
    build: str = ""
    recipe: str = ""
    speed: Speed | None = None
    prefill_tps: float | None = None
    version: str = ""
    commit: str = ""
    dirty: bool = False
    fault: Fault | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def counted(self) -> bool:
        """Whether it is a run of its own that did something and says so truly."""
        aside = self.dry_run or self.edited or self.twin
        return self.status != "unreadable" and not aside

    @property
    def time(self) -> datetime | None:
        """When it started."""
        try:
            time = datetime.fromisoformat(self.started.replace("Z", "+00:00"))
        except ValueError:
            return None
        return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def read(folder: Path) -> Row:
    """The row of a run folder; whatever is wrong with it is said in the row."""
    try:
        told = (folder / "run.json").stat()
        if not stat.S_ISREG(told.st_mode) or told.st_size > LARGEST_BYTES:
            raise KeyelabError(f"expected run.json to be a file below {LARGEST_BYTES >> 20} MiB")
        return _row(records.load(folder), folder)
    except FileNotFoundError:
        return Row(folder, notes=["half written: it has no run.json"])
    except KeyelabError as error:
        return Row(folder, notes=[error.message])
    except (OSError, RecursionError) as error:
        return Row(folder, notes=[f"cannot be read: {getattr(error, 'strerror', '') or error}"])


def _as_sealed(folder: Path) -> bool | None:
    """Whether run.json is the one that was sealed; None when none was."""
    try:
        with (folder / SUMS).open(encoding="utf-8", errors="replace") as sums:
            sealed = [line[:64] for line in sums if line[66:].rstrip("\n") == "run.json"]
    except FileNotFoundError:
        return None
    return sealed == [sha256_file(folder / "run.json")]


def _row(run: Run, folder: Path) -> Row:
    facts = {phase.phase: phase.facts or {} for phase in run.phases}
    model = _part(facts, "model_fetch", "model")
    perf = _part(facts, "perf_analysis")
    now = state(folder, run) if run.status == "running" else "ended"
    gone = now == "gone"
    sealed = _as_sealed(folder)
    notes = {
        "its process is gone and it was never sealed": gone,
        "begun on another machine, or before this one was started anew": now == "elsewhere",
        "edited: run.json is not the one that was sealed": sealed is False,
        "half written: it was never sealed": sealed is None and run.status != "running",
    }
    return Row(
        folder=folder,
        status="interrupted" if gone else run.status,
        run_id=run.run_id,
        target=run.target,
        started=run.started,
        duration_s=run.duration_s,
        dry_run=run.dry_run,
        edited=sealed is False,
        original=run.original.run_id if run.original else "",
        model=PurePosixPath(_text(model, "path")).name,
        model_sha256=_text(model, "sha256"),
        host=_host(_part(facts, "env_check")),
        build=_text(_part(facts, "build"), "version"),
        recipe=_text(_part(facts, "source_patch"), "recipe"),
        speed=_speed(perf),
        prefill_tps=_number(perf.get("prefill_tps")),
        version=run.tool.version,
        commit=run.tool.commit or "",
        dirty=bool(run.tool.dirty),
        fault=fault_of(run, folder),
        notes=[note for note, holds in notes.items() if holds],
    )


def _host(facts: Mapping[str, Any]) -> str:
    """What makes a machine fast or slow; its system may be updated and it is still the same."""
    cards = [str(card.get("name") or card.get("arch")) for card in _rows(facts, "devices")]
    memory = _number(facts.get("memory_bytes"))
    parts = [
        _text(facts, "cpu"),
        f"{facts['cores']} cores" if facts.get("cores") else "",
        f"{memory / 2**30:.0f} GiB" if memory else "",
        *(f"{cards.count(name)} × {name}" for name in dict.fromkeys(cards)),
    ]
    return ", ".join(part for part in parts if part)


def _speed(perf: Mapping[str, Any]) -> Speed | None:
    """Of a sweep at its least depth, else of the main request."""
    swept = [
        (str(row.get("way")), depth, ms)
        for row in _rows(perf, "sweep")
        if (ms := _number(row.get("ms_per_token")))
        and (depth := _number(row.get("context_tokens"))) is not None
    ]
    if swept:
        way, least, _ = min(swept)  # http before llama-bench: what a client sees
        tps = [1000 / ms for own, depth, ms in swept if (own, depth) == (way, least)]
        return Speed(statistics.median(tps), len(tps), way, int(least))
    decode_tps = _number(perf.get("decode_tps"))
    if not decode_tps:
        return None
    same = (row for row in _rows(perf, "tasks") if row.get("decode_tps") == perf["decode_tps"])
    depth = _number(next(same, {}).get("context_tokens"))
    return Speed(decode_tps, 1, "request", None if depth is None else int(depth))


def _part(value: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _rows(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = value.get(name)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if good and math.isfinite(value) and value >= 0 else None
