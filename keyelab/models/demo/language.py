"""The language half: Qwen3-VL-MoE's decoder, small, with the names of its GGUF tensors.

Query and key norms, grouped-query attention, interleaved M-RoPE, experts chosen by top-k softmax,
output tied to the embedding; the arithmetic of llama.cpp's src/models/qwen3vlmoe.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from keyelab.models.demo.vision import turned


@dataclass(frozen=True)
class LanguageShape:
    """Geometry. `sections`: how many rotary pairs follow time, row and column."""

    vocabulary: int = 640
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    experts: int = 4
    used: int = 2
    expert_mlp: int = 128
    sections: tuple[int, int, int] = (6, 5, 5)
    rope_base: float = 10000.0
    eps: float = 1e-6
    context: int = 8192


class Language(nn.Module):
    """Embeddings to hidden states; `logits` of those that are asked for."""

    def __init__(self, shape: LanguageShape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.token_embd.weight, std=0.05)
        self.blk = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, shape.eps)
        axis = torch.zeros(shape.head // 2, dtype=torch.long)
        for row in (1, 2):
            axis[row : 3 * shape.sections[row] : 3] = row
        self.register_buffer("axis", axis, persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """B × L × width from embeddings and 3 × B × L positions (time, row, column).

        Causal: what is padded at the end changes nothing before it.
        """
        half = self.shape.head // 2
        rates = self.shape.rope_base ** (-torch.arange(half, device=x.device) / half)
        axis: Any = self.axis
        angle = (positions[axis].permute(1, 2, 0) * rates)[:, None]
        turn = angle.cos(), angle.sin()
        for layer in self.blk:
            x = layer(x, turn)
        normed: Tensor = self.output_norm(x)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.token_embd.weight)


class Layer(nn.Module):
    def __init__(self, shape: LanguageShape) -> None:
        super().__init__()
        self.shape = shape
        width, head = shape.width, shape.head
        self.attn_norm = nn.RMSNorm(width, shape.eps)
        self.attn_q = nn.Linear(width, shape.heads * head, bias=False)
        self.attn_k = nn.Linear(width, shape.kv_heads * head, bias=False)
        self.attn_v = nn.Linear(width, shape.kv_heads * head, bias=False)
        self.attn_q_norm = nn.RMSNorm(head, shape.eps)
        self.attn_k_norm = nn.RMSNorm(head, shape.eps)
        self.attn_output = nn.Linear(shape.heads * head, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, shape.eps)
        self.ffn_gate_inp = nn.Linear(width, shape.experts, bias=False)
        self.ffn_gate_exps = Experts(shape.experts, width, shape.expert_mlp)
        self.ffn_up_exps = Experts(shape.experts, width, shape.expert_mlp)
        self.ffn_down_exps = Experts(shape.experts, shape.expert_mlp, width)
        self.balance = torch.tensor(0.0)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self._attended(self.attn_norm(x), turn)
        return x + self._experts(self.ffn_norm(x))

    def _attended(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        def split(flat: Tensor) -> Tensor:
            return flat.unflatten(-1, (-1, self.shape.head)).transpose(1, 2)

        query = turned(self.attn_q_norm(split(self.attn_q(x)).float()), turn)
        key = turned(self.attn_k_norm(split(self.attn_k(x)).float()), turn)
        value = split(self.attn_v(x))
        groups = self.shape.heads // self.shape.kv_heads
        key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(
            query.to(value.dtype), key.to(value.dtype), value, is_causal=True
        )
        out: Tensor = self.attn_output(mixed.transpose(1, 2).flatten(2))
        return out

    def _experts(self, x: Tensor) -> Tensor:
        """All experts are computed, those not chosen weigh nothing: two large products.

        `balance` becomes the usual auxiliary loss, 1 when the experts share the work evenly.
        """
        chance = self.ffn_gate_inp(x).float().softmax(-1)
        best = chance.topk(self.shape.used, -1)
        weight = best.values / best.values.sum(-1, keepdim=True)
        share = torch.zeros_like(chance).scatter(-1, best.indices, weight)
        used = (share > 0).float().flatten(0, -2).mean(0) / self.shape.used
        self.balance = self.shape.experts * (used * chance.flatten(0, -2).mean(0)).sum()
        gate, up = self.ffn_gate_exps.spread(x), self.ffn_up_exps.spread(x)
        inner = functional.silu(gate) * up
        inner = inner.unflatten(-1, (self.shape.experts, -1)) * share[..., None].to(inner.dtype)
        down = self.ffn_down_exps.weight.transpose(1, 2).flatten(0, 1)
        return inner.flatten(-2) @ down.to(inner.dtype)


class Experts(nn.Module):
    """One matrix per expert: experts × out × in."""

    def __init__(self, experts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        form = (experts, outputs, inputs)
        self.weight = nn.Parameter(torch.empty(form).normal_(std=inputs**-0.5))

    def spread(self, x: Tensor) -> Tensor:
        """What every expert makes of x, one after the other in the last dimension."""
        return functional.linear(x, self.weight.flatten(0, 1))
