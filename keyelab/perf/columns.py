"""A table that grows row by row at 8 bytes a value."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import nan
from typing import Any

_ROWS = 4096  # kept as they are, before they are packed


class Columns:
    """Columns by name, each of a kind: int, float, bool or str (few different ones)."""

    def __init__(self, kinds: dict[str, type]) -> None:
        self._kinds = kinds
        self._columns = [array("d") for _ in kinds]
        self._texts: dict[str, int] = {}
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """One row, in the order of the columns; None is unknown."""
        self._rows.append(values)
        if len(self._rows) >= _ROWS:
            self._pack()

    def _pack(self) -> None:
        columns = zip(*self._rows, strict=True)
        for column, kind, values in zip(self._columns, self._kinds.values(), columns, strict=False):
            known: Iterable[Any] = values
            if kind is str:
                known = (None if text is None else self._code(text) for text in values)
            column.extend([nan if value is None else value for value in known])
        self._rows.clear()

    def _code(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def frame(self) -> Any:
        """The table as a pandas frame: Int64, float64, bool and category."""
        import numpy as np
        import pandas as pd

        self._pack()
        frame = {}
        for (name, kind), column in zip(self._kinds.items(), self._columns, strict=True):
            values = np.array(column, dtype=float)
            if kind is str:
                codes = np.where(np.isnan(values), -1, values).astype(int)
                texts = pd.Categorical.from_codes(codes, list(self._texts))
                frame[name] = texts.remove_unused_categories()
            elif kind is int:
                frame[name] = pd.array(values, dtype="Float64").astype("Int64")
            else:
                frame[name] = values.astype(kind)
        return pd.DataFrame(frame)
