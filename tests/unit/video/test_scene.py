"""Scenes are found where the picture changes, and frames are shared out over them."""

from __future__ import annotations

import sys
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab.errors import KeyelabError
from keyelab.video.decode import take
from keyelab.video.probe import probe
from keyelab.video.sample import plan, sampling
from keyelab.video.scene import lengths, middles


def shots(*counts: int) -> list[Any]:
    """Pictures of `counts` frames each: every shot has ground and shapes of its own."""
    made = []
    for shot, count in enumerate(counts):
        noise = numpy.random.default_rng(shot).integers(0, 255, (6, 10, 3), dtype=numpy.uint8)
        made += [numpy.kron(noise, numpy.ones((16, 16, 1), numpy.uint8))] * count
    return made


def test_cuts_are_found_at_their_frames(make_video: Any) -> None:
    pytest.importorskip("scenedetect")
    info = probe(make_video(pictures=shots(20, 12, 40, 8), rate=10))
    assert lengths(info) == pytest.approx([2.0, 1.2, 4.0, 0.8], abs=0.01)
    picks = plan(info, fps=10, max_frames=3, sampling="scene")
    assert [pick.index for pick in picks] == [10, 26, 52]
    more = plan(info, fps=10, max_frames=6, sampling="scene")
    assert [pick.index for pick in more] == pytest.approx([5, 15, 26, 42, 62, 76], abs=1)
    assert sampling(info, picks, [pick for pick, _ in take(info, picks)]).sent == 3


def test_cuts_of_a_variable_rate_are_told_in_seconds(make_video: Any) -> None:
    pytest.importorskip("scenedetect")
    times = [i * 0.05 for i in range(40)] + [2.0 + i * 0.4 for i in range(20)]
    info = probe(make_video(pictures=shots(40, 20), times=times))
    assert lengths(info)[0] == pytest.approx(2.0, abs=0.01)


def test_without_times_scenes_are_counted_in_frames(make_video: Any) -> None:
    pytest.importorskip("scenedetect")
    info = probe(make_video("raw.h264", pictures=shots(20, 40), kind="h264"))
    assert lengths(info) == [20.0, 40.0]
    assert [p.index for p in plan(info, fps=1, max_frames=2, sampling="scene")] == [10, 40]


def test_one_shot_is_sampled_evenly(make_video: Any) -> None:
    pytest.importorskip("scenedetect")
    info = probe(make_video(pictures=shots(40), rate=10))
    even, scene = (plan(info, fps=1, max_frames=4, sampling=how) for how in ("even", "scene"))
    assert even == scene


def test_without_pyscenedetect_the_sentence_says_how_to_get_it(
    make_video: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scenedetect", None)
    with pytest.raises(KeyelabError, match="expected PySceneDetect") as caught:
        plan(probe(make_video()), fps=1, max_frames=4, sampling="scene")
    assert caught.value.hint == "pip install 'keyelab[scene]'"


def test_the_longest_scenes_come_first_and_are_then_divided() -> None:
    scenes = [4.0, 1.0, 2.0]
    assert middles(scenes, 1) == [2.0]
    assert middles(scenes, 2) == [2.0, 6.0]
    assert middles(scenes, 3) == [2.0, 4.5, 6.0]
    assert middles(scenes, 4) == [1.0, 3.0, 4.5, 6.0]
    assert middles([0.0, 3.0], 2) == [0.0, 1.5]


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=40), st.integers(1, 120))
def test_any_scenes_give_as_many_times_as_asked_in_order(scenes: list[float], count: int) -> None:
    found = middles(scenes, count)
    assert len(found) == count
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] <= sum(scenes) * (1 + 1e-9)
