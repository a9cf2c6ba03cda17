"""Pictures are written whole, also for runs with little in them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy
import pytest

from keyelab.perf.plots import depth_plot, segments, timeline_plot
from keyelab.perf.reader import ARTICLE_LOG, read_log
from keyelab.perf.server import ServerLog

DATA = Path(__file__).parents[2] / "data" / "perf"


def colours(path: Path) -> set[tuple[int, int, int]]:
    """RGB colours that fill at least 40 pixels."""
    bgr = cv2.imdecode(numpy.frombuffer(path.read_bytes(), numpy.uint8), cv2.IMREAD_COLOR)
    found, counts = numpy.unique(bgr[..., ::-1].reshape(-1, 3), axis=0, return_counts=True)
    return {(int(r), int(g), int(b)) for (r, g, b), n in zip(found, counts, strict=True) if n >= 40}


@pytest.mark.parametrize("draw", [depth_plot, timeline_plot])
def test_real_empty_and_interleaved_runs_can_be_drawn(tmp_path: Path, draw: object) -> None:
    runs = [
        ("this run", read_log(DATA / "b10019_cpu_demo.log")),
        ("interleaved", read_log(DATA / "interleaved.log")),
        ("nothing", ServerLog()),
    ]
    for number in (0, 1):
        path = draw(tmp_path / f"{number}.png", runs[number : number + 2])  # type: ignore[operator]
        assert path.read_bytes().startswith(b"\x89PNG")


def test_both_runs_are_on_the_depth_plot(tmp_path: Path) -> None:
    ours = read_log(DATA / "b10019_cpu_demo.log")
    path = depth_plot(
        tmp_path / "d.png", [("this run", ours), ("the article", read_log(ARTICLE_LOG))]
    )
    assert {(0, 114, 178), (213, 94, 0)} <= colours(path)


def test_parts_of_a_request_stand_one_after_the_other() -> None:
    parts = segments(read_log(ARTICLE_LOG).tasks[292])
    kinds = [kind for kind, _, _ in parts]
    assert kinds == ["queue", "prompt", *["image encode and prefill"] * 10, "decode"]
    by_kind = {kind: (start, length) for kind, start, length in parts}
    assert by_kind["prompt"][1] == pytest.approx(140.567, abs=0.001)
    assert by_kind["decode"][0] == pytest.approx(sum(by_kind["prompt"]), abs=1e-6)
    assert by_kind["decode"][1] == pytest.approx(494.668, abs=0.001)


def test_an_unfinished_request_is_drawn_as_such() -> None:
    parts = segments(read_log(ARTICLE_LOG).tasks[343])
    assert [kind for kind, _, _ in parts] == ["queue", "not finished"]
    assert parts[1][2] == pytest.approx(26.49, abs=0.01)
