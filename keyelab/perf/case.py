"""What the detective looks at, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from keyelab.facts import EnvFacts, ServerFact
from keyelab.perf.requests import Row
from keyelab.perf.shape import Shape
from keyelab.perf.summary import rows as plain_rows
from keyelab.perf.tables import Tables


@dataclass(frozen=True)
class Finding:
    """What was seen, what it costs (unknown where not measured), how to confirm, what to change."""

    rule: str
    evidence: str
    cost: str
    confirm: str
    change: str


@dataclass(frozen=True)
class Case:
    """What is known of one server run: its log, and where there are any, the facts beside it."""

    own: Tables
    requests: list[Row]
    backend: str = ""
    server: ServerFact | None = None
    host: EnvFacts | None = None
    shape: Shape | None = None
    numa_nodes: int | None = None
    sweep: list[Row] = field(default_factory=list)  # `depth.spread`

    @property
    def run(self) -> Row:
        """The one row of the table of servers."""
        return plain_rows(self.own.servers)[0]

    @property
    def busy_ms(self) -> float:
        """What all requests took, without their waiting."""
        return sum((row["prompt_ms"] or 0) + (row["decode_ms"] or 0) for row in self.requests)
