"""Clips that the demo model has never seen: stories, films and pictures drawn by lot.

Training drew its pictures with other code and never saw a video file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from keyelab.video import sample
from keyelab.video.decode import take
from keyelab.video.demo import COLOURS, MOTIONS, SHAPES, Film, Story
from keyelab.video.frame import square
from keyelab.video.probe import VideoInfo
from keyelab.video.sample import Pick

Picture = tuple[Pick, Any]  # where it stands in the video, RGB (height × width × 3, uint8)
SIDE_PX = 96  # what the model was trained on first of all


def story(dice: random.Random, frames: int) -> Story:
    """What happens in a clip of which so many frames are taken; 40 % of the longer have an event.

    Such an event lies in the middle third, where frames stand on both sides of it.
    """
    one = Story(dice.choice(list(COLOURS)), dice.choice(SHAPES), dice.choice(list(MOTIONS)))
    if frames < 5 or dice.random() < 0.6:
        return one
    then = dice.choice([_colour(dice, one), _turn(dice, one)])
    return Story(one.colour, one.shape, one.motion, then, dice.uniform(0.35, 0.65))


def late(dice: random.Random) -> Story:
    """A clip that changes in its last tenth only."""
    one = Story(dice.choice(list(COLOURS)), dice.choice(SHAPES), dice.choice(list(MOTIONS)))
    then = dice.choice([_colour(dice, one), _turn(dice, one)])
    return Story(one.colour, one.shape, one.motion, then, 0.9)


def turning(dice: random.Random) -> Story:
    """A clip whose shape changes its direction once, in the second half."""
    moves = [name for name in MOTIONS if name != "still"]
    one = Story(dice.choice(list(COLOURS)), dice.choice(SHAPES), dice.choice(moves))
    return Story(one.colour, one.shape, one.motion, _turn(dice, one), dice.uniform(0.55, 0.75))


def film(dice: random.Random, width: int = SIDE_PX, height: int = SIDE_PX) -> Film:
    """How a clip is drawn and stored: rate, length, ground, size and place of the path by lot."""
    return Film(
        width,
        height,
        rate=dice.choice([10, 12, 25, 30]),
        duration_s=dice.choice([2.0, 3.0, 4.0]),
        variable=dice.random() < 0.2,
        ground=dice.randint(0, 80),
        radius=dice.uniform(0.1, 0.16),
        travel=dice.uniform(0.4, 0.55),
        shift=(dice.uniform(-1, 1), dice.uniform(-1, 1)),
    )


def pictures(
    info: VideoInfo, most: int, *, side_px: int = SIDE_PX, picks: Sequence[Pick] = ()
) -> list[Picture]:
    """At most so many frames over the whole clip, or `picks`; `side_px` 0 keeps their size."""
    chosen = picks or sample.plan(info, fps=1000, max_frames=most)
    return [(pick, square(rgb, side_px) if side_px else rgb) for pick, rgb in take(info, chosen)]


def renamed(order: Sequence[Picture], pictures: Sequence[Picture]) -> list[Picture]:
    """`pictures` at the places in the video that those of `order` have."""
    return [(pick, rgb) for (pick, _), (_, rgb) in zip(order, pictures, strict=False)]


def _colour(dice: random.Random, one: Story) -> str:
    return dice.choice([name for name in COLOURS if name != one.colour])


def _turn(dice: random.Random, one: Story) -> str:
    return dice.choice([name for name in MOTIONS if name not in (one.motion, "still")])
