"""What a training clip shows: drawn at random, one array entry per clip.

A clip is described by its sampled frames: where the shape is in each of them, and its colour.
Lengths are shares of the shorter side of the picture that is inside the canvas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

from keyelab.models.demo import words

Array = Any
COLOUR_NAMES, MOTION_NAMES = list(words.COLOURS), list(words.MOTIONS)
_STEPS = numpy.array(list(words.MOTIONS.values()), float)
STILL = MOTION_NAMES.index("still")
LEAST_TRAVEL = 0.19  # between the first and the last frame of a motion: 18 px of 96
_KINDS = ("move", "still", "turn", "start", "recolour")


@dataclass
class Stories:
    """B clips of K frames: names of what happens, and the arrays the renderer needs."""

    colour: Array  # B × K, index of the colour
    shape: Array  # B
    xy: Array  # B × K × 2, canvas px
    radius: Array  # B, px
    window: Array  # B × 4: left, top, right, bottom of the picture inside the canvas, px
    truth: list[dict[str, str]] = field(default_factory=list)  # keywords of words.caption


def draw(
    rng: numpy.random.Generator, count: int, frames: int, size: tuple[int, int], fused: bool = False
) -> Stories:
    """`count` stories of `frames` sampled frames on a canvas of `size` = (width, height) px.

    `fused`: frames will be merged in pairs, where two equal frames look like a single picture.
    """
    window = _windows(rng, count, size)
    inner = window[:, 2:] - window[:, :2]
    side = inner.min(1)
    radius = side * rng.uniform(0.1, 0.18, count)
    kind = _kinds(rng, count, frames, fused)
    motion = rng.integers(0, STILL, count)
    motion[numpy.isin(kind, ("still", "start"))] = STILL
    stays = (kind == "recolour") & (rng.random(count) < 0.5)
    motion[stays] = STILL
    second = (motion + rng.integers(1, STILL, count)) % STILL
    second[motion == STILL] = rng.integers(0, STILL, int((motion == STILL).sum()))
    event = _events(rng, count, frames, kind)

    span = (inner - 2 * radius[:, None] - 2).clip(1)
    least = LEAST_TRAVEL * side
    path = _leg(rng, motion, span, least, frames)
    legged = numpy.isin(kind, ("turn", "start"))
    path[legged] = _two_legs(
        rng, motion[legged], second[legged], span[legged], least[legged], event[legged], frames
    )
    xy = _placed(rng, path, window, radius)
    xy += rng.uniform(-0.5, 0.5, xy.shape) * rng.choice([0.0, 1.0], (count, 1, 1))

    first = rng.integers(0, len(COLOUR_NAMES), count)
    later = (first + rng.integers(1, len(COLOUR_NAMES), count)) % len(COLOUR_NAMES)
    after = numpy.arange(frames)[None] >= event[:, None]
    turned = (kind == "recolour")[:, None] & after
    colour = numpy.where(turned, later[:, None], first[:, None])
    shape = rng.integers(0, len(words.SHAPES), count)
    truth = [
        {
            "colour": COLOUR_NAMES[first[i]],
            "shape": words.SHAPES[shape[i]],
            "motion": MOTION_NAMES[motion[i]] if frames > 1 else "",
            "then": {"turn": MOTION_NAMES[second[i]], "start": MOTION_NAMES[second[i]]}.get(
                kind[i], COLOUR_NAMES[later[i]] if kind[i] == "recolour" else ""
            ),
        }
        for i in range(count)
    ]
    return Stories(colour, shape, xy, radius, window, truth)


def _kinds(rng: numpy.random.Generator, count: int, frames: int, fused: bool) -> Array:
    shares = [0.34, 0.16, 0.22, 0.13, 0.15]
    if frames == 2:
        shares = [0.55, 0.0 if fused else 0.3, 0, 0, 0.15]
    elif frames == 1:
        shares = [0, 1, 0, 0, 0]
    return rng.choice(_KINDS, count, p=numpy.array(shares) / sum(shares))


def _events(rng: numpy.random.Generator, count: int, frames: int, kind: Array) -> Array:
    """First frame after the event: from 1 for a colour, from 2 for a motion; often the last."""
    low = numpy.minimum(numpy.where(kind == "recolour", 1, 2), frames - 1)
    event = rng.integers(low, max(frames, 1), count) if frames > 1 else numpy.zeros(count, int)
    return numpy.where(rng.random(count) < 0.35, frames - 1, event)


def _windows(rng: numpy.random.Generator, count: int, size: tuple[int, int]) -> Array:
    """The whole canvas, or a part of it between two black bars."""
    width, height = size
    bars = numpy.zeros((count, 2))
    barred = rng.random(count) < 0.3
    share = numpy.where(
        rng.random(count) < 0.6, rng.choice([0.25, 0.4375], count), rng.uniform(0.02, 0.45, count)
    )
    upright = (rng.random(count) < 0.3).astype(int)
    bars[numpy.arange(count), 1 - upright] = numpy.where(barred, share, 0)
    left = numpy.round(bars[:, 0] * width / 2)
    top = numpy.round(bars[:, 1] * height / 2)
    return numpy.stack([left, top, width - left, height - top], 1)


def _length(rng: numpy.random.Generator, motion: Array, span: Array, least: Array) -> Array:
    axis = (_STEPS[motion][:, 1] != 0).astype(int)
    free = span[numpy.arange(len(motion)), axis]
    low = numpy.minimum(numpy.maximum(least, 0.35 * free), free)
    return low + (free - low) * rng.random(len(motion)) ** 1.3


def _leg(
    rng: numpy.random.Generator, motion: Array, span: Array, least: Array, frames: int
) -> Array:
    """B × K × 2: one motion, with unequal steps and a little drift sideways."""
    when = numpy.arange(frames) / max(1, frames - 1)
    slack = rng.uniform(-0.3, 0.3, (len(motion), frames)) / max(1, frames - 1)
    slack[:, [0, -1]] = 0
    uneven = rng.random((len(motion), 1)) < 0.5
    share = when + slack * uneven
    length = _length(rng, motion, span, least)
    path = share[..., None] * (_STEPS[motion] * length[:, None])[:, None]
    drift = rng.uniform(-0.03, 0.03, (len(motion), 1)) * least[:, None] / LEAST_TRAVEL
    sideways = _STEPS[motion][:, ::-1] * drift
    return path + share[..., None] * sideways[:, None]


def _two_legs(
    rng: numpy.random.Generator,
    motion: Array,
    second: Array,
    span: Array,
    least: Array,
    event: Array,
    frames: int,
) -> Array:
    """B × K × 2: a first motion up to frame `event` - 1, then a second one."""
    count, number = len(motion), numpy.arange(frames)[None]
    before = numpy.maximum(event - 1, 1)[:, None]
    first = _length(rng, motion, span, least)
    # the turn lies between two frames: a part of a step is not seen
    over = first / before[:, 0] * rng.uniform(0, 0.6, count) * (motion != STILL)
    length = numpy.maximum(_length(rng, second, span, least), least + over)
    phase = rng.uniform(0.3, 1.0, (count, 1))
    along = (number / before).clip(0, 1) * first[:, None]
    gone = number >= event[:, None]
    along = numpy.where(gone, (first + over)[:, None], along)
    share = (number - event[:, None] + phase) / (frames - 1 - event[:, None] + phase)
    later = numpy.where(gone, share * length[:, None], 0)
    return along[..., None] * _STEPS[motion][:, None] + later[..., None] * _STEPS[second][:, None]


def _placed(rng: numpy.random.Generator, path: Array, window: Array, radius: Array) -> Array:
    """The path moved to a place in the window where all of it is inside, shrunk if it must be."""
    low, high = path.min(1), path.max(1)
    room = (window[:, 2:] - window[:, :2]) - 2 * radius[:, None] - 2
    shrink = numpy.minimum(1, room.clip(1) / (high - low).clip(1e-6))
    path, low, high = path * shrink[:, None], low * shrink, high * shrink
    slack = (room - (high - low)).clip(0)
    start = window[:, :2] + radius[:, None] + 1 - low + slack * rng.random(low.shape)
    return path + start[:, None]
