"""Five tables from real logs, number for number.

The logs named after b10019, b10502, b11010 and b11434 are what servers of these builds said at
-lv 4 about the demo model on a CPU; lines without any figure and the folders of paths are left out.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from keyelab.errors import KeyelabError
from keyelab.perf.reader import ARTICLE_LOG, read
from keyelab.perf.tables import Collector, Tables, read_tables

DATA = Path(__file__).parents[2] / "data" / "perf"


def tables(content: bytes, size: int = 1 << 18) -> Tables:
    collector = Collector()
    read(io.BytesIO(content), collector, size)
    return collector.tables()


@pytest.fixture(scope="module")
def article() -> Tables:
    return read_tables([ARTICLE_LOG])


def row(frame: Any, **wanted: object) -> dict[str, Any]:
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    (found,) = frame.to_dict("records")
    return dict(found)


def test_the_articles_server_and_tasks(article: Tables) -> None:
    server = row(article.servers)
    assert (server["slots"], server["context_tokens"]) == (4, 262144)
    assert (server["weights_s"], server["ready_s"]) == pytest.approx((113.597137, 129.305309))
    assert article.tasks.task.tolist() == [0, 148, 292, 343]
    assert article.tasks.state.tolist() == ["finished"] * 3 + ["cancelled"]
    assert article.tasks.decode_tps_logged.tolist()[:3] == [18.06, 18.13, 3.44]
    assert article.tasks.rate_basis.tolist()[:2] == ["n/t", "n/t"]
    assert article.tasks.beside.tolist() == [0, 0, 1, 1]
    video = row(article.tasks, task=292)
    assert (video["context_tokens"], video["cached_tokens"], video["images"]) == (11995, 0, 10)
    assert row(article.tasks, task=343)["queue_s"] == pytest.approx(0.187214)


def test_recomputed_rates_are_the_printed_ones(article: Tables) -> None:
    done = article.tasks[article.tasks.state == "finished"]
    again = 1000 * done.decode_tokens.astype(float) / done.decode_ms
    assert (again - done.decode_tps_logged).abs().max() < 0.01
    windows = article.samples.dropna(subset=["ms_per_token"])
    assert len(windows) == 148
    assert (1000 / windows.ms_per_token - windows.window_tps_logged).abs().max() < 0.01


def test_the_articles_chunks_and_cache(article: Tables) -> None:
    assert article.chunks.tokens.tolist() == [1197] * 10
    assert article.chunks.tokens_basis.tolist() == ["spacing"] * 9 + ["assumed"]
    assert article.chunks.encode_ms.isna().all()
    assert article.chunks.total_ms.sum() == pytest.approx(140_466, abs=1)
    saved = row(article.events, kind="idle_slot_saved")
    assert (saved["ms"], saved["mib"], saved["tokens"]) == (pytest.approx(346.123), 16.929, 152)
    assert row(article.events, kind="cancelled")["task"] == 343


def test_four_and_a_half_tokens_a_second_are_nowhere(article: Tables) -> None:
    for frame in vars(article).values():
        for name in frame.columns:
            if name.endswith(("_tps", "_logged")):
                values = frame[name].dropna()
                assert not ((values > 4.4) & (values < 4.6)).any()


def test_b10019_with_two_slots() -> None:
    found = read_tables([DATA / "b10019_two_slots.log"])
    server = row(found.servers)
    assert (server["build"], server["slots"], server["context_tokens"]) == (10019, 2, 4096)
    assert server["projector_s"] == pytest.approx(0.12277)
    assert found.tasks.state.tolist().count("finished") == 11
    assert row(found.tasks, state="cancelled")["task"] == 962
    assert set(found.tasks.rate_basis.dropna()) == {"n/t"}
    waited = row(found.tasks, task=3093)
    assert waited["queue_s"] == pytest.approx(8.853332)
    assert row(found.tasks, task=3091)["beside"] == 1
    both = found.samples.dropna(subset=["ms_per_token"])
    assert both.beside.tolist() == [1, 1]
    assert found.chunks.tokens.tolist() == [9] * 5
    assert found.chunks.encode_ms.between(0.5, 5).all()
    assert found.chunks.prefill_ms.between(0.1, 5).all()


@pytest.mark.parametrize("name", ["b10502_one_slot.log", "b11010_one_slot.log", "b11434_jsonl.log"])
def test_later_builds_count_steps(name: str) -> None:
    found = read_tables([DATA / name])
    assert set(found.tasks.rate_basis.dropna()) == {"(n-1)/t"}
    done = found.tasks[found.tasks.state == "finished"]
    assert ((done.decode_tps - done.decode_tps_logged).abs() / done.decode_tps).max() < 0.005
    assert found.tasks.state.tolist() == ["finished"] * 3 + ["cancelled", "finished"]
    assert found.tasks.cached_tokens.tolist()[:3] == [0, 10, 3]
    assert found.tasks.decode_tokens.tolist()[:3] == [40, 12, 60]
    assert found.servers.ready_s[0] > found.servers.multimodal_s[0] > found.servers.weights_s[0]


@pytest.mark.parametrize(
    "name", ["2023_text.log", "2024_json.log", "2024_info.log", "2025_blocks.log"]
)
def test_four_old_forms_tell_the_same_two_tasks(name: str) -> None:
    found = read_tables([DATA / name]).tasks
    assert found.state.tolist() == ["finished", "finished"]
    assert found.task.tolist() == [0, 1]
    assert found.prompt_tokens.tolist() == [1400, 50]
    assert found.decode_tokens.tolist() == [400, 11]
    assert found.decode_tps.tolist() == pytest.approx([9.975, 10.0])
    assert found.context_tokens.tolist() == [1400, 50]
    assert found.last_seen_s.isna().all()
    assert found.beside.isna().all()


def test_slices_of_2025_are_one_image_each_and_counted_once() -> None:
    chunk = row(read_tables([DATA / "2025_blocks.log"]).chunks)
    assert (chunk["encode_ms"], chunk["prefill_ms"], chunk["tokens"]) == (700.0, 300.0, 256)
    bare = b"srv  process_chun: image processed in 1000 ms\n"
    launch = b"slot launch_slot_: id  0 | task 0 | processing task\n"
    assert row(tables(launch + bare).chunks)["total_ms"] == 1000.0


def test_several_files_and_runs_are_numbered_on() -> None:
    found = read_tables([ARTICLE_LOG, DATA / "b11010_one_slot.log", ARTICLE_LOG])
    assert found.servers.server.tolist() == [0, 1, 2]
    assert found.tasks.server.value_counts().to_dict() == {0: 4, 1: 5, 2: 4}


def test_two_containers_beside_each_other_are_two_servers() -> None:
    lines = ARTICLE_LOG.read_bytes().splitlines(keepends=True)
    other = (DATA / "b11010_one_slot.log").read_bytes().splitlines(keepends=True)
    mixed = b"".join(
        b"one  | " + line + (b"two  | [12345] " + other[n] if n < len(other) else b"")
        for n, line in enumerate(lines)
    )
    found = tables(mixed)
    assert found.servers.source.tolist() == ["two [12345]", "one"]
    assert found.tasks.groupby("server").size().tolist() == [5, 4]


def test_a_file_that_is_no_log_is_named_among_several(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing of interest\n")
    with pytest.raises(KeyelabError, match=r"notes\.txt, found none"):
        read_tables([ARTICLE_LOG, path])
