"""Decoder layers of a language model, with random weights: what `bench --prefill` runs.

Norm, attention of grouped heads with rotary positions, norm, gated feed-forward: the layers of
Qwen2.5 and Llama 3, with the linear layers that transformers gives them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .workloads import data, model

# Standard deviation of random weights.
_SPREAD = 0.02
Cache = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes of a model, by the names of its configuration file."""

    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    rope_theta: float
    rms_norm_eps: float
    bias: bool  # of queries, keys and values

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def weights(self) -> int:
        """Elements of the weights of a layer's linear layers."""
        keys = self.num_key_value_heads * self.head
        rows = 2 * self.hidden_size + 2 * keys + 3 * self.intermediate_size
        return rows * self.hidden_size


def architecture(name: str) -> Architecture:
    """Return the sizes of a model."""
    return Architecture(**model(name, data("architectures"), "--prefill knows no model"))


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        x = self.sizes = sizes
        keys = x.num_key_value_heads * x.head
        self.q_proj = nn.Linear(x.hidden_size, x.hidden_size, bias=x.bias)
        self.k_proj = nn.Linear(x.hidden_size, keys, bias=x.bias)
        self.v_proj = nn.Linear(x.hidden_size, keys, bias=x.bias)
        self.o_proj = nn.Linear(x.hidden_size, x.hidden_size, bias=False)
        self.gate_proj = nn.Linear(x.hidden_size, x.intermediate_size, bias=False)
        self.up_proj = nn.Linear(x.hidden_size, x.intermediate_size, bias=False)
        self.down_proj = nn.Linear(x.intermediate_size, x.hidden_size, bias=False)
        self.attention_norm = nn.RMSNorm(x.hidden_size, x.rms_norm_eps)
        self.feed_norm = nn.RMSNorm(x.hidden_size, x.rms_norm_eps)

    def forward(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Return the next hidden states (tokens, hidden), and keys and values of all tokens."""
        normed, head = self.attention_norm(x), self.sizes.head
        q, k, v = (
            part(normed).view(len(x), -1, head).transpose(0, 1)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        first = 0 if cache is None else cache[0].shape[1]
        q, k = (_rotated(y, first, self.sizes.rope_theta) for y in (q, k))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        seen = functional.scaled_dot_product_attention(
            *(y[None] for y in (q, k, v)), is_causal=cache is None, enable_gqa=True
        )
        x = x + self.o_proj(seen[0].transpose(0, 1).reshape(len(x), -1))
        normed = self.feed_norm(x)
        gated = functional.silu(self.gate_proj(normed)) * self.up_proj(normed)
        return x + self.down_proj(gated), (k, v)


class Decoder(nn.Module):
    """Some decoder layers."""

    def __init__(self, sizes: Architecture, count: int, dtype: torch.dtype) -> None:
        super().__init__()
        with torch.device("meta"):
            self.layers = nn.ModuleList(Layer(sizes) for _ in range(count))
        self.to(dtype).to_empty(device="cpu")
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, x in self.named_parameters():
                if "norm" in name:
                    x.fill_(1.0)
                else:
                    x.normal_(0.0, _SPREAD, generator=generator)
        self.requires_grad_(False)

    def forward(self, x: Tensor, caches: list[Cache] | None = None) -> tuple[Tensor, list[Cache]]:
        """Return the last hidden states, and the caches of all layers."""
        kept = []
        for at, layer in enumerate(self.layers):
            x, cache = layer(x, None if caches is None else caches[at])
            kept.append(cache)
        return x, kept


def _rotated(x: Tensor, first: int, theta: float) -> Tensor:
    """Return heads (heads, tokens, size) turned by the angles of their positions."""
    half = x.shape[-1] // 2
    at = torch.arange(first, first + x.shape[1], dtype=torch.float64)
    angles = at[:, None] * theta ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
