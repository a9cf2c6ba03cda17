"""Tokens of a picture by llama.cpp's rule, and the size that stays within a limit."""

from __future__ import annotations

import pytest

from keyelab.video.tokens import SMALLEST_TILE_PX, fit, of, tile_px


@pytest.mark.parametrize(
    ("size", "tile", "tokens"),
    [
        ((96, 96), 32, 9),  # the demo model, measured with b10019
        ((1280, 720), 28, 1196),  # 46 × 26; the article's frames cost 1,197 with a mark
        ((1280, 720), 32, 920),  # 720 / 32 is 22.5, rounded up as std::round does
        ((10, 10), 32, 8),  # the least of the Qwen-VL projectors
    ],
)
def test_a_tile_is_a_token(size: tuple[int, int], tile: int, tokens: int) -> None:
    assert of(*size, tile) == tokens


def test_the_tile_is_the_projectors_patch_times_its_merge() -> None:
    assert tile_px({"clip.vision.patch_size": 16, "clip.vision.spatial_merge_size": 2}) == 32
    assert tile_px({"clip.vision.patch_size": 14}) == 28
    assert tile_px({}) == SMALLEST_TILE_PX


@pytest.mark.parametrize("size", [(1920, 1080), (1080, 1920), (640, 480), (4000, 31)])
@pytest.mark.parametrize("limit", [64, 512, 1196])
@pytest.mark.parametrize("tile", [28, 32])
def test_a_limit_of_tokens_is_kept_with_the_proportions(
    size: tuple[int, int], limit: int, tile: int
) -> None:
    width, height = fit(*size, max_tokens=limit, tile=tile)
    assert of(width, height, tile) <= limit
    assert width <= size[0]
    assert height <= size[1]
    assert abs(width / height / (size[0] / size[1]) - 1) < 0.1


def test_a_limit_of_tokens_is_used_well() -> None:
    assert of(*fit(1920, 1080, max_tokens=512, tile=28), 28) >= 450


def test_a_limit_of_pixels_is_kept_and_nothing_grows() -> None:
    width, height = fit(1920, 1080, max_px=500_000)
    assert 495_000 < width * height <= 500_000
    assert fit(96, 96, max_px=500_000, max_tokens=100) == (96, 96)
    assert fit(96, 96) == (96, 96)


def test_even_the_smallest_limit_ends() -> None:
    width, height = fit(1920, 1080, max_tokens=1, tile=28)
    assert max(width, height) < 1.5 * 28
