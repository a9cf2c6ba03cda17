"""A row says what run.json says, and what is wrong with the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_runs import FACTS, make_run

from keyelab.record import hold
from keyelab.record.row import Speed, read
from keyelab.record.run import boot


def test_a_row_holds_what_the_run_was_made_of(tmp_path: Path) -> None:
    row = read(make_run(tmp_path))
    assert (row.status, row.target, row.notes) == ("passed", "cpu-demo", [])
    assert (row.model, row.model_sha256[:2], row.build) == ("tiny.gguf", "aa", "b10019")
    assert (row.recipe, row.host) == ("k100ai", "EPYC, 2 cores, 16 GiB")
    assert row.speed == Speed(20.0, 1, "request", 4096)
    assert row.prefill_tps == 300.0
    assert row.commit.startswith("c0ffee")
    assert row.counted


def test_the_speed_is_the_sweeps_median_at_its_least_depth(tmp_path: Path) -> None:
    sweep = [
        {"way": way, "context_tokens": depth, "ms_per_token": ms}
        for way, depth, ms in [
            ("http", 512, 100.0), ("http", 0, 50.0), ("http", 0, 40.0), ("http", 0, 10.0),
            ("llama-bench", 0, 1.0), ("http", 0, None),
        ]
    ]  # fmt: skip
    facts = {"perf_analysis": {**FACTS["perf_analysis"], "sweep": sweep}}
    assert read(make_run(tmp_path, facts=facts)).speed == Speed(25.0, 3, "http", 0)


def test_cards_are_part_of_the_host(tmp_path: Path) -> None:
    cards = [{"name": "K100_AI", "arch": "gfx928"}] * 8
    facts = {"env_check": {**FACTS["env_check"], "devices": cards}}
    assert read(make_run(tmp_path, facts=facts)).host.endswith("8 × K100_AI")


def edit(folder: Path) -> None:
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace("tiny.gguf", "huge.gguf"))


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (lambda f: (f / "run.json").unlink(), "unreadable", "half written: it has no run.json"),
        (lambda f: (f / "run.json").write_text("{"), "unreadable", "expected JSON"),
        (lambda f: (f / "run.json").write_bytes(b"\xff\xfe"), "unreadable", "expected JSON"),
        (lambda f: (f / "run.json").write_text("[" * 200_000), "unreadable", ""),
        (lambda f: (f / "run.json").write_text("{}"), "unreadable", "a keyelab run record"),
        (lambda f: (f / "SHA256SUMS").unlink(), "passed", "half written: it was never sealed"),
        (lambda f: (f / "SHA256SUMS").write_bytes(b"\xff"), "passed", "edited"),
        (edit, "passed", "edited: run.json is not the one that was sealed"),
    ],
    ids=["none", "cut", "binary", "deep", "other", "unsealed", "sums", "edited"],
)
def test_what_is_wrong_with_a_record_is_said(
    tmp_path: Path, spoil: Callable[[Path], Any], status: str, said: str
) -> None:
    folder = make_run(tmp_path)
    spoil(folder)
    row = read(folder)
    assert row.status == status
    assert len(row.notes) == 1
    assert said in row.notes[0]


def test_a_pipe_in_place_of_run_json_is_not_waited_for(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    assert read(folder).status == "unreadable"


def test_a_running_run_whose_process_is_gone_was_interrupted(tmp_path: Path) -> None:
    folder = make_run(tmp_path, status="running", sealed=False, boot=boot())
    with hold.held(folder):
        row = read(folder)
        assert (row.status, row.notes) == ("running", [])
    row = read(folder)
    assert row.status == "interrupted"
    assert row.notes == ["its process is gone and it was never sealed"]


def test_a_running_run_of_another_machine_may_go_on_there(tmp_path: Path) -> None:
    row = read(make_run(tmp_path, status="running", sealed=False, boot="elsewhere"))
    assert row.status == "running"
    assert "another machine" in row.notes[0]


NAMES = [
    "model", "path", "sha256", "cpu", "cores", "memory_bytes", "devices", "name", "version",
    "recipe", "decode_tps", "prefill_tps", "tasks", "sweep", "way", "context_tokens",
    "ms_per_token",
]  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)
PART = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts=st.dictionaries(st.sampled_from(list(FACTS)), PART))
def test_facts_of_any_shape_make_a_row(
    tmp_path_factory: pytest.TempPathFactory, facts: dict[str, Any]
) -> None:
    row = read(make_run(tmp_path_factory.mktemp("any"), facts=facts))
    assert row.status == "passed"
    assert row.speed is None or row.speed.decode_tps > 0
