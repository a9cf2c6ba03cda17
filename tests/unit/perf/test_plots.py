"""Pictures are written whole, also for runs with little in them, and hold what they claim to."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy
import pytest

from keyelab.perf import explain
from keyelab.perf.limits import Point
from keyelab.perf.load import percentiles
from keyelab.perf.loadplots import latency_plot, memory_plot, roofline_plot
from keyelab.perf.machine import given
from keyelab.perf.plots import curve, depth_plot, image_plot, swept
from keyelab.perf.reader import ARTICLE_LOG
from keyelab.perf.tables import Tables, read_tables
from keyelab.perf.timeline import segments, timeline_plot

DATA = Path(__file__).parents[2] / "data" / "perf"
BLUE, ORANGE, GREEN = (0, 114, 178), (213, 94, 0), (0, 158, 115)


def log(path: Path) -> Tables:
    return explain.last(read_tables([path]))


@pytest.fixture(scope="module")
def article() -> Tables:
    return log(ARTICLE_LOG)


def colours(path: Path) -> set[tuple[int, int, int]]:
    """RGB colours that fill at least 40 pixels."""
    bgr = cv2.imdecode(numpy.frombuffer(path.read_bytes(), numpy.uint8), cv2.IMREAD_COLOR)
    found, counts = numpy.unique(bgr[..., ::-1].reshape(-1, 3), axis=0, return_counts=True)
    return {(int(r), int(g), int(b)) for (r, g, b), n in zip(found, counts, strict=True) if n >= 40}


@pytest.mark.parametrize("name", ["b10019_cpu_demo", "interleaved", "2023_text", "speculative"])
def test_real_runs_with_little_in_them_can_be_drawn(
    tmp_path: Path, article: Tables, name: str
) -> None:
    runs = [("this run", log(DATA / f"{name}.log")), ("the article", article)]
    for draw in (image_plot, timeline_plot):
        assert draw(tmp_path / "p.png", runs).read_bytes().startswith(b"\x89PNG")
    path = depth_plot(tmp_path / "d.png", [curve(*run) for run in runs[:1]])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_every_curve_is_on_the_depth_plot(tmp_path: Path, article: Tables) -> None:
    sweep = [
        {"way": "http", "depth_tokens": depth, "ms_per_token": 5 + depth / 500 + wobble}
        for depth in (16, 1000, 2000)
        for wobble in (0.1, 0.0, 0.2)
    ]
    two_slots = curve("this run", log(DATA / "b10019_two_slots.log"))
    curves = [two_slots, curve("the article", article), *swept(sweep)]
    assert [one.label for one in curves] == ["this run", "the article", "http"]
    assert curves[2].line is not None
    assert curves[2].line.slope == pytest.approx(0.002, abs=1e-4)
    assert {BLUE, ORANGE, GREEN} <= colours(depth_plot(tmp_path / "d.png", curves))


def test_parts_of_a_request_stand_one_after_the_other(article: Tables) -> None:
    task = next(row for row in article.tasks.itertuples() if row.task == 292)
    parts = segments(article, task)
    kinds = [kind for kind, _, _ in parts]
    assert kinds == ["queue", "prompt", *["image encode and prefill"] * 10, "decode"]
    by_kind = {kind: (start, length) for kind, start, length in parts}
    assert by_kind["prompt"][1] == pytest.approx(140.567, abs=0.001)
    assert by_kind["decode"][0] == pytest.approx(sum(by_kind["prompt"]), abs=1e-6)
    assert by_kind["decode"][1] == pytest.approx(494.668, abs=0.001)


def test_an_unfinished_request_is_drawn_as_such(article: Tables) -> None:
    task = next(row for row in article.tasks.itertuples() if row.task == 343)
    parts = segments(article, task)
    assert [kind for kind, _, _ in parts] == ["queue", "not finished"]
    assert parts[1][2] == pytest.approx(26.49, abs=0.01)


def test_encoding_stands_apart_where_the_log_tells_it() -> None:
    own = log(DATA / "b10019_cpu_demo.log")
    kinds = {kind for task in own.tasks.itertuples() for kind, _, _ in segments(own, task)}
    assert "image encode" in kinds


def test_pictures_of_a_live_server_hold_their_data(tmp_path: Path) -> None:
    rows = [
        {"kind": kind, "level": level, "round_s": 0.1, "error": "", "tokens": 8,
         "ttft_s": 0.01 * level, "token_ms": 1.0 + level, "total_s": 0.1 * level}
        for kind in ("text", "video") for level in (1, 2)
    ]  # fmt: skip
    assert {BLUE, ORANGE} <= colours(latency_plot(tmp_path / "l.png", percentiles(rows)))
    points = [Point("http: decode at 0", 1.0, 1e9, 2e9, "memory", 0.5)]
    assert BLUE in colours(roofline_plot(tmp_path / "r.png", points, given(10, 1)))
    for speeds in ((0.0, 0.0), (10.0, 0.0)):
        assert roofline_plot(tmp_path / "u.png", points, given(*speeds)).stat().st_size > 1000
    assert roofline_plot(tmp_path / "n.png", [], given(1, 1)).stat().st_size > 1000
    assert BLUE in colours(memory_plot(tmp_path / "m.png", {"ROCm0": 54000.0, "CPU": 12.5}))
