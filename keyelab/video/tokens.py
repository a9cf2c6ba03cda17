"""What a picture costs in tokens, computed as llama.cpp does for Qwen-VL projectors.

Sides are rounded to whole tiles of patch_size · merge pixels (mtmd-image.cpp,
calc_size_preserved_ratio) and a tile is a token. Keye and Qwen2.5-VL have tiles of 28 px, Qwen3-VL
of 32. The start and the end mark of a picture are tokens too; `budget` measures what all cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SMALLEST_TILE_PX = 28
MARKS = 2  # tokens that stand for a picture's start and end
_LEAST = 8  # clip.cpp, set_limit_image_tokens(8, 4096) of the Qwen-VL projectors


def tile_px(projector: Mapping[str, Any]) -> int:
    """Side of the square that becomes one token, from the key-values of the projector's GGUF.

    28 where they do not say it: the smallest known, so that costs are not underestimated.
    """
    patch = projector.get("clip.vision.patch_size")
    merge = projector.get("clip.vision.spatial_merge_size", 2)
    return int(patch) * int(merge) if patch else SMALLEST_TILE_PX


def of(width: int, height: int, tile: int) -> int:
    """Tokens of a picture of width × height px, without its marks."""
    return max(_LEAST, _tiles(width, height, tile))


def fit(
    width: int, height: int, *, max_px: int = 0, max_tokens: int = 0, tile: int = SMALLEST_TILE_PX
) -> tuple[int, int]:
    """The size to send: proportions kept, never larger, within both limits (0 is no limit).

    The sides need not be whole tiles: the server rounds them.
    """
    scale = 1.0
    for limit_px in (max_px, max_tokens * tile * tile):
        if limit_px:
            scale = min(scale, math.sqrt(limit_px / (width * height)))
    while True:
        size = max(1, int(width * scale + 1e-6)), max(1, int(height * scale + 1e-6))
        if not max_tokens or _tiles(*size, tile) <= max_tokens:
            return size
        scale *= 0.99


def _tiles(width: int, height: int, tile: int) -> int:
    across, down = (max(1, int(side / tile + 0.5)) for side in (width, height))
    return across * down
