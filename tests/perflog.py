"""The tables of a log that a test writes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from keyelab.perf import explain
from keyelab.perf.reader import read
from keyelab.perf.tables import Collector, Tables

DATA = Path(__file__).parent / "data" / "perf"


def tables_of(log: Path | Iterable[str]) -> Tables:
    """The rows of the last server run of a file or of lines."""
    content = log.read_bytes() if isinstance(log, Path) else "".join(log).encode()
    collector = Collector()
    read(io.BytesIO(content), collector)
    return explain.last(collector.tables())
