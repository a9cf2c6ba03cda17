"""Whatever is put around a log, and wherever it is cut into blocks, its tables are the same."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyelab.perf.reader import ARTICLE_LOG, read
from keyelab.perf.tables import Collector, Tables

DATA = Path(__file__).parents[2] / "data" / "perf"
REAL = (DATA / "b10019_two_slots.log").read_bytes()
JSONL = (DATA / "b11434_jsonl.log").read_bytes()
ARTICLE = ARTICLE_LOG.read_bytes()


def tables(content: bytes, size: int = 1 << 18) -> Tables:
    collector = Collector()
    read(io.BytesIO(content), collector, size)
    return collector.tables()


def same(one: Tables, other: Tables) -> None:
    for name, frame in vars(one).items():
        left, right = (
            table.drop(columns=["source"], errors="ignore") for table in (frame, vars(other)[name])
        )
        pd.testing.assert_frame_equal(left, right, check_categorical=False)


def each(content: bytes, before: str, after: str = "") -> bytes:
    return b"".join(
        before.encode() + line + after.encode() + b"\n" for line in content.splitlines()
    )


def docker(content: bytes) -> bytes:
    return b"".join(
        json.dumps(
            {"log": line + "\n", "stream": "stderr", "time": "2026-01-02T03:04:05.1Z"},
            separators=(",", ":"),
        ).encode()
        + b"\n"
        for line in content.decode().splitlines()
    )


def coloured(content: bytes) -> bytes:
    return re.sub(
        rb"(?m)^([\d.]+) ([IWED]) (.*)$",
        b"\x1b[34m\\1 \x1b[0m\x1b[32m\\2 \x1b[0m\\3\x1b[0m",
        content,
    )


WRAPPINGS = {
    "compose": each(REAL, "llama-server-1  | "),
    "kubernetes": each(REAL, "2026-01-02T03:04:05.123456789Z stderr F "),
    "journald": each(REAL, "Jan 02 03:04:05 host-a llama-server[77]: "),
    "journald with a colon": each(REAL, "Jan 12 03:04:05  llama:[1351]: "),
    "journald, ISO times": each(REAL, "2026-01-02T03:04:05+0000 host-a llama-server[77]: "),
    "docker logs -t": each(REAL, "2026-01-02T03:04:05.123456789Z "),
    "docker's files": docker(REAL),
    "router's child": each(REAL, "[34255] "),
    "compose and a router's child": each(REAL, "llama-cpp       | [34255] "),
    "CRLF": each(REAL, "", "\r"),
    "colours": coloured(REAL),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + REAL,
    "UTF-16": REAL.decode().encode("utf-16"),
    "UTF-16, big endian": b"\xfe\xff" + REAL.decode().encode("utf-16-be"),
    "UTF-16 without a mark": REAL.decode().encode("utf-16-le"),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_stands_around_makes_no_difference(wrapping: str) -> None:
    same(tables(WRAPPINGS[wrapping]), tables(REAL))


@pytest.mark.parametrize("before", ["llama-server-1  | ", "2026-01-02T03:04:05.123Z stderr F "])
def test_json_lines_may_be_wrapped_too(before: str) -> None:
    same(tables(each(JSONL, before)), tables(JSONL))
    same(tables(docker(JSONL)), tables(JSONL))


def test_the_flattened_article_is_the_same_log() -> None:
    flat = re.sub(rb"\s+", b" ", ARTICLE)
    assert flat.count(b"\n") == 0
    for size in (7, 1000, 1 << 18):
        same(tables(flat, size), tables(ARTICLE))


def test_lines_without_times_keep_all_figures_but_times() -> None:
    bare = re.sub(rb"(?m)^[\d.]+ [IWED] ", b"", REAL)
    timed, found = tables(REAL).tasks, tables(bare).tasks
    for name in ("task", "state", "context_tokens", "cached_tokens", "decode_ms", "decode_tps"):
        pd.testing.assert_series_equal(found[name], timed[name], check_categorical=False)
    assert found.launched_s.isna().all()
    windows = tables(bare).samples.dropna(subset=["ms_per_token"])
    stated = tables(REAL).samples.dropna(subset=["ms_per_token"])
    assert windows.ms_per_token.tolist() == pytest.approx(stated.ms_per_token.tolist(), rel=1e-3)


@pytest.mark.parametrize("content", [REAL, JSONL, ARTICLE], ids=["b10019", "jsonl", "article"])
def test_the_same_log_twice_is_two_servers(content: bytes) -> None:
    once, twice = tables(content), tables(content * 2)
    assert twice.servers.server.tolist() == [0, 1]
    second = twice.tasks[twice.tasks.server == 1].reset_index(drop=True)
    shared = [name for name in second.columns if name not in ("server", "line")]
    pd.testing.assert_frame_equal(second[shared], once.tasks[shared])
    assert (second.line - once.tasks.line).unique().tolist() == [content.count(b"\n")]


def test_a_restart_whose_clock_is_the_only_sign_is_another_server() -> None:
    tail = ARTICLE[ARTICLE.index(b"2.17.222.807") :]
    assert tables(tail * 3).servers.server.tolist() == [0, 1, 2]


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 5000), log=st.sampled_from([REAL, JSONL, WRAPPINGS["UTF-16"], ARTICLE]))
def test_any_block_boundary_gives_the_same_tables(size: int, log: bytes) -> None:
    same(tables(log, max(size, len(log) // 2000)), tables(log))


NOISE = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([*REAL.splitlines(keepends=True), *JSONL.splitlines(keepends=True)]),
    st.sampled_from([line[: len(line) // 2] for line in REAL.splitlines()]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(NOISE, max_size=25))
def test_any_bytes_are_read_without_an_error(parts: list[bytes]) -> None:
    tables(b"".join(parts))


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, len(REAL) - 1), damage=st.binary(min_size=1, max_size=20))
def test_damage_in_one_place_costs_no_more_than_one_task(at: int, damage: bytes) -> None:
    found = tables(REAL[:at] + damage.replace(b"\n", b"") + REAL[at + len(damage) :])
    whole = tables(REAL).tasks
    key = ["task", "prompt_ms", "decode_ms", "decode_tokens"]
    kept = whole[key].merge(found.tasks[key].drop_duplicates(), on=key)
    assert len(kept) >= len(whole) - 2
