"""The vision half: a native-resolution ViT and the merger that llama.cpp calls qwen3vl_merger.

Parameters bear the names of their GGUF tensors. The arithmetic is that of llama.cpp's graph
(tools/mtmd/models/qwen3vl.cpp): learned positions resized to the picture's grid, rotary positions
by row and column, GELU by tanh in the merger too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class VisionShape:
    """Geometry: patches of `patch` px, 2 × 2 of them make one token."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    mlp: int = 384
    patch: int = 16
    grid: int = 6  # learned positions: the grid of a 96 × 96 px picture
    eps: float = 1e-6


class Vision(nn.Module):
    """Pictures to tokens of the language model."""

    def __init__(self, shape: VisionShape, out: int) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.v = nn.ModuleDict(
            {
                "patch_embd": Patches(shape),
                "position_embd": nn.Embedding(shape.grid**2, width),
                "blk": nn.ModuleList(Block(shape) for _ in range(shape.layers)),
                "post_ln": nn.LayerNorm(width, shape.eps),
            }
        )
        nn.init.normal_(self.v["position_embd"].weight, std=0.5)
        self.mm = nn.Sequential(
            nn.Linear(4 * width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, out)
        )

    def forward(self, pictures: Tensor, corners: bool) -> Tensor:
        """N × T × out from N × (1 or 2) × 3 × height × width pictures of 0 to 255.

        Two frames make one block of time; a single one stands twice. `corners`: how positions are
        resized, by the corners of the grid (llama.cpp b10502 and later, Hugging Face) or by the
        middles of its cells (b10019). Sides are multiples of 32 px.
        """
        high, wide = (side // self.shape.patch for side in pictures.shape[-2:])
        x = self.v["patch_embd"](pictures / 127.5 - 1) + self._learned(high, wide, corners)
        turn = self._rotary(high, wide, x.device)
        for block in self.v["blk"]:
            x = block(x, turn)
        merged: Tensor = self.mm(self.v["post_ln"](x).unflatten(1, (-1, 4)).flatten(2))
        return merged

    def _learned(self, high: int, wide: int, corners: bool) -> Tensor:
        grid = self.shape.grid
        table: Any = self.v["position_embd"].weight
        plane = table.T.reshape(1, -1, grid, grid)
        if (high, wide) != (grid, grid):
            how: dict[str, Any] = {"align_corners": True}
            if not corners:
                how = {"align_corners": False, "antialias": True}
            plane = functional.interpolate(plane.float(), (high, wide), mode="bilinear", **how)
        return by_merge(plane[0].permute(1, 2, 0))

    def _rotary(self, high: int, wide: int, device: Any) -> tuple[Tensor, Tensor]:
        quarter = self.shape.width // self.shape.heads // 4
        rates = 10000.0 ** (-torch.arange(quarter, device=device) / quarter)
        rows = torch.arange(high, device=device)[:, None].expand(high, wide)
        columns = torch.arange(wide, device=device)[None].expand(high, wide)
        place = by_merge(torch.stack([rows, columns], 2))
        angle = (place[..., None] * rates).flatten(1)
        return angle.cos(), angle.sin()


def by_merge(plane: Tensor) -> Tensor:
    """Rows × columns × C to patches × C, the four patches of one token next to each other."""
    high, wide, depth = plane.shape
    return plane.view(high // 2, 2, wide // 2, 2, depth).transpose(1, 2).reshape(-1, depth)


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary position: the two halves of a head as one complex number."""
    (cos, sin), (a, b) = turn, x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Patches(nn.Module):
    """The first layer: 16 × 16 px of two frames to one vector, one kernel per frame."""

    def __init__(self, shape: VisionShape) -> None:
        super().__init__()
        self.patch = shape.patch
        form = (shape.width, 3, shape.patch, shape.patch)
        self.weight = nn.Parameter(torch.empty(form).normal_(std=0.02))
        self.weight_1 = nn.Parameter(torch.empty(form).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(shape.width))

    def forward(self, pictures: Tensor) -> Tensor:
        count, frames, _, height, width = pictures.shape
        p = self.patch
        cut = pictures.view(count, frames, 3, height // p // 2, 2, p, width // p // 2, 2, p)
        cut = cut.permute(1, 0, 3, 6, 4, 7, 2, 5, 8).reshape(frames, count, -1, 3 * p * p)
        first, second = self.weight.flatten(1), self.weight_1.flatten(1)
        if frames == 1:
            return functional.linear(cut[0], first + second, self.bias)
        return functional.linear(cut[0], first, self.bias) + functional.linear(cut[1], second)


class Block(nn.Module):
    """One transformer layer over the patches of a picture."""

    def __init__(self, shape: VisionShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.ln1 = nn.LayerNorm(shape.width, shape.eps)
        self.attn_qkv = nn.Linear(shape.width, 3 * shape.width)
        self.attn_out = nn.Linear(shape.width, shape.width)
        self.ln2 = nn.LayerNorm(shape.width, shape.eps)
        self.ffn_up = nn.Linear(shape.width, shape.mlp)
        self.ffn_down = nn.Linear(shape.mlp, shape.width)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        qkv = self.attn_qkv(self.ln1(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            turned(query, turn), turned(key, turn), value
        )
        x = x + self.attn_out(mixed.transpose(1, 2).flatten(2))
        grown = functional.gelu(self.ffn_up(self.ln2(x)), approximate="tanh")
        return x + self.ffn_down(grown)
