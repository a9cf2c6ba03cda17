"""Training stories: what they say is what their pictures show."""

from __future__ import annotations

import itertools

import numpy
import pytest

from keyelab.models.demo import story, words

SIZE = (96, 96)


def drawn(frames: int, seed: int = 7, count: int = 400, fused: bool = False) -> story.Stories:
    return story.draw(numpy.random.default_rng(seed), count, frames, SIZE, fused)


@pytest.mark.parametrize("frames", [1, 2, 3, 8, 16])
def test_the_shape_stays_inside_the_picture(frames: int) -> None:
    clips = drawn(frames)
    edge = clips.radius[:, None] + 0.5
    assert (clips.xy[..., 0] >= clips.window[:, :1] + edge - 1e-6).all()
    assert (clips.xy[..., 0] <= clips.window[:, 2:3] - edge + 1e-6).all()
    assert (clips.xy[..., 1] >= clips.window[:, 1:2] + edge - 1e-6).all()
    assert (clips.xy[..., 1] <= clips.window[:, 3:4] - edge + 1e-6).all()


def test_the_first_and_last_place_tell_the_motion() -> None:
    clips = drawn(8)
    for path, radius, truth in zip(clips.xy, clips.radius, clips.truth, strict=True):
        gone = path[-1] - path[0]
        if truth["then"] in words.MOTIONS or truth["motion"] == "still":
            continue
        along = gone @ numpy.array(words.MOTIONS[truth["motion"]])
        assert along > radius, truth
        assert abs(gone).max() == abs(along), "the motion is the larger of both directions"


def test_what_stays_still_moves_less_than_a_pixel() -> None:
    clips = drawn(8)
    still = [not one["then"] and one["motion"] == "still" for one in clips.truth]
    assert sum(still) > 20
    assert numpy.ptp(clips.xy[still], axis=1).max() <= 1


def test_the_colour_changes_once_and_to_the_one_that_is_told() -> None:
    clips = drawn(8)
    for colours, truth in zip(clips.colour, clips.truth, strict=True):
        names = [story.COLOUR_NAMES[one] for one in colours]
        changes = sum(one != other for one, other in itertools.pairwise(names))
        assert names[0] == truth["colour"]
        assert changes == (truth["then"] in words.COLOURS)
        assert names[-1] == (truth["then"] if changes else truth["colour"])


def test_a_single_picture_has_neither_motion_nor_event() -> None:
    assert {(one["motion"], one["then"]) for one in drawn(1).truth} == {("", "")}


def test_two_fused_frames_never_stand_still_without_an_event() -> None:
    told = [(one["motion"], one["then"]) for one in drawn(2, fused=True).truth]
    assert ("still", "") not in told


def test_the_same_seed_draws_the_same_stories_and_another_one_others() -> None:
    one, same, other = drawn(5, 1), drawn(5, 1), drawn(5, 2)
    assert (one.xy == same.xy).all()
    assert one.truth == same.truth
    assert one.truth != other.truth
