"""What a record says, as statements by key.

Times, process ids, ports, run ids and readings of the moment are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keyelab.params import Common
from keyelab.record.comparison.side import Side, mapping, rows

LEFT_OUT = {"run_dir", "target", "verbose", "port"}


@dataclass(frozen=True)
class Statement:
    """One thing that a record says; None is unknown. `phase` is '' when it is for all phases.

    `follows` are patterns of keys that it can come from, nearest first: when one of those differs
    too, this difference is told under that one. `source` is where a parameter's value is from. Of
    an `optional` one it tells nothing that a record has none.
    """

    topic: str
    name: str
    phase: str
    value: Any
    follows: tuple[str, ...] = ()
    source: str = ""
    optional: bool = False

    @property
    def key(self) -> str:
        """topic.name"""
        return f"{self.topic}.{self.name}"


def statements(side: Side) -> dict[str, Statement]:
    """What a record says by key, in the order of the phases, causes before what follows."""
    from keyelab.record.comparison.told import facts

    said = [*_parameters(side), *_keyelab(side), *facts(side), *_checks(side)]
    return {one.key: one for one in said}


def _parameters(side: Side) -> Iterator[Statement]:
    """Parameters that all phases have are told once, by the first phase that has them."""
    common: set[str] = set()
    for phase, record in side.phases.items():
        for name, given in mapping(record.get("parameters")).items():
            if name in LEFT_OUT | common or not isinstance(given, dict):
                continue
            shared = name in Common.model_fields
            common |= {name} if shared else set()
            yield Statement(
                "parameters",
                name if shared else f"{phase}.{name}",
                "" if shared else phase,
                given.get("value"),
                source=str(given.get("source", "")),
            )


def _keyelab(side: Side) -> Iterator[Statement]:
    """The program: its version and commit, and the cells of each notebook that ran."""
    tool = mapping(side.run.get("tool"))
    yield Statement("keyelab", "version", "", tool.get("version"))
    yield Statement("keyelab", "commit", "", tool.get("commit"), ("keyelab.version",))
    for phase in side.phases:
        if cells := side.notebook(phase):
            yield Statement("keyelab", f"notebook of {phase}", phase, cells, ("keyelab.*",))


def _checks(side: Side) -> Iterator[Statement]:
    for phase, record in side.phases.items():
        for one in rows(record.get("checks")):
            name, verdict = f"{phase}: {one.get('name')}", one.get("status")
            yield Statement("checks", name, phase, verdict, optional=verdict == "ok")
