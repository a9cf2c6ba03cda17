"""Drawing frames with torch, on whatever device the model is trained on.

Shapes are drawn from their signed distance, so edges are smooth; then come noise, the loss of
resolution that scaling and video codecs bring, and JPEG's block transform with real tables.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from keyelab.models.demo import words
from keyelab.models.demo.story import Stories

_COLOURS = torch.tensor(list(words.COLOURS.values()), dtype=torch.float32)


def frames(stories: Stories, size: tuple[int, int], seed: int, device: Any) -> Tensor:
    """Pictures of all stories: B × K × 3 × height × width, 0 to 255, whole numbers."""
    dice = torch.Generator(device).manual_seed(seed)
    x, y = (torch.arange(side, device=device) + 0.5 for side in size)
    count, number = stories.colour.shape
    xy = torch.as_tensor(stories.xy, dtype=torch.float32, device=device)
    radius = torch.as_tensor(stories.radius, dtype=torch.float32, device=device)
    shape = torch.as_tensor(stories.shape, device=device)
    dx = x[None, None, None] - xy[..., 0, None, None]
    dy = y[None, None, :, None] - xy[..., 1, None, None]
    ink = (0.5 - _distance(dx, dy, radius, shape)).clamp(0, 1)[:, :, None]

    def roll(*form: int) -> Tensor:
        return torch.rand(form, generator=dice, device=device)

    colour = _COLOURS.to(device)[torch.as_tensor(stories.colour, device=device)]
    colour = (colour + (roll(count, 1, 3) - 0.5) * 36).clamp(0, 255)[..., None, None]
    ground = roll(count, 1, 1, 1, 1) * 80 + (roll(count, 1, 3, 1, 1) - 0.5) * 12
    slope = (roll(count, 2, 1, 1, 1, 1) - 0.5) * 30 * (roll(count, 1, 1, 1, 1, 1) < 0.3)
    ground = ground + slope[:, 0] * (x / size[0] - 0.5) + slope[:, 1] * (y / size[1] - 0.5)[:, None]
    picture = torch.lerp(ground.clamp(0, 255).expand(-1, number, -1, -1, -1), colour, ink)

    strength = torch.tensor([0.0, 0.0, 2.0, 5.0], device=device)[
        torch.randint(0, 4, (count, 1, 1, 1, 1), generator=dice, device=device)
    ]
    noise = torch.randn(picture.shape, generator=dice, device=device)
    picture = (picture + noise * strength) * _inside(stories.window, x, y)
    picture = _softened(picture, roll(3))
    quality = 50 + 46 * roll(count, number)
    coded = jpeg(picture.flatten(0, 1), quality.flatten()).view_as(picture)
    plain = roll(count, 1, 1, 1, 1) < 0.25
    return torch.where(plain, picture, coded).round().clamp(0, 255)


def _distance(dx: Tensor, dy: Tensor, radius: Tensor, shape: Tensor) -> Tensor:
    """Signed distance (px) to the edge; the triangle has its tip up and is as wide as high."""
    r = radius[:, None, None, None]
    kind = shape[:, None, None, None]
    circle = torch.hypot(dx, dy) - r
    square = torch.maximum(dx.abs(), dy.abs()) - r
    slant = (2 * dx.abs() - dy - r) / 5**0.5
    triangle = torch.maximum(slant, dy - r)
    return torch.where(kind == 0, circle, torch.where(kind == 1, square, triangle))


def _inside(window: Any, x: Tensor, y: Tensor) -> Tensor:
    left, top, right, bottom = torch.as_tensor(window, dtype=torch.float32, device=x.device).T
    wide = (x >= left[:, None]) & (x <= right[:, None])
    high = (y >= top[:, None]) & (y <= bottom[:, None])
    return (wide[:, None, :] & high[:, :, None])[:, None, None].float()


def _softened(picture: Tensor, dice: Tensor) -> Tensor:
    """A third of the batches: scaled from a smaller or a larger picture, as clients do."""
    if dice[0] > 0.35:
        return picture
    flat = picture.flatten(0, 1)
    height, width = flat.shape[-2:]
    scale = float(0.55 + 1.2 * dice[1])
    between = [max(8, round(side * scale)) for side in (height, width)]
    mode = "bicubic" if dice[2] < 0.5 else "bilinear"
    small = functional.interpolate(flat, between, mode=mode, antialias=True)
    back = functional.interpolate(small, (height, width), mode=mode, antialias=True)
    return back.clamp(0, 255).view_as(picture)


def jpeg(pictures: Tensor, quality: Tensor) -> Tensor:
    """What JPEG leaves of N × 3 × height × width pictures (0 to 255) at N qualities (1 to 100).

    As libjpeg does it: YCbCr, colour at half resolution, 8 × 8 cosine transform, the tables of
    the standard's annex K scaled by quality. Sides are multiples of 16 px.
    """
    luma, blue, red = (_TO_YCC.to(pictures) @ pictures.flatten(2)).view_as(pictures).unbind(1)
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality)[:, None, None] / 100
    luma = _quantized(luma - 128, _LUMA.to(pictures) * scale) + 128
    table = _CHROMA.to(pictures) * scale
    colours = [
        functional.interpolate(
            _quantized(functional.avg_pool2d(plane[:, None], 2)[:, 0], table)[:, None],
            scale_factor=2,
            mode="bilinear",
        )[:, 0]
        for plane in (blue, red)
    ]
    coded = torch.stack([luma, *colours], 1)
    return (_TO_RGB.to(pictures) @ coded.flatten(2)).view_as(pictures).clamp(0, 255)


def _quantized(plane: Tensor, table: Tensor) -> Tensor:
    count, height, width = plane.shape
    table = table.round().clamp(1, 255)[:, None, None]
    base = _COSINES.to(plane)
    blocks = plane.view(count, height // 8, 8, width // 8, 8).transpose(2, 3)
    kept = ((base @ blocks @ base.T) / table).round() * table
    return (base.T @ kept @ base).transpose(2, 3).reshape(plane.shape)


def _cosines() -> Tensor:
    k, n = torch.arange(8.0)[:, None], torch.arange(8.0)[None]
    rows = torch.cos((2 * n + 1) * k * torch.pi / 16) / 2
    rows[0] /= 2**0.5
    return rows


_COSINES = _cosines()
_TO_YCC = torch.tensor(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)
_TO_RGB = torch.linalg.inv(_TO_YCC)
_LUMA = torch.tensor(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    dtype=torch.float32,
)
_CHROMA = torch.full((8, 8), 99.0)
_CHROMA[:4, :4] = torch.tensor(
    [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]], dtype=torch.float32
)
