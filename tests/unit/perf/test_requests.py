"""Rows of requests say what must be known before their rates are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyelab.perf import explain, requests
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.tables import read_tables

DATA = Path(__file__).parents[2] / "data" / "perf"


def notes(path: Path) -> dict[int, str]:
    rows = requests.rows(explain.last(read_tables([path])))
    return {row["task"]: row["note"] for row in rows}


def test_the_articles_notes() -> None:
    told = notes(ARTICLE_LOG)
    assert told[0] == ""
    assert told[148] == "cached prompt (1 evaluated)"
    assert told[292] == "ran beside another task"
    assert told[343] == "cancelled, no token written that the log tells of; ran beside another task"


def test_drafts_and_a_cut_context_are_noted() -> None:
    said = " ".join(notes(DATA / "speculative.log").values())
    assert "drafted tokens accepted" in said
    assert "context was cut" in said


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
def test_rows_of_any_log_are_plain_json(path: Path) -> None:
    rows = requests.rows(explain.last(read_tables([path])))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert set(requests.shown(rows)) <= set(requests.SHOWN)
