"""Decoder layers of a language model, with random weights: what `bench --prefill` runs.

Norm, attention of grouped heads with rotary positions, norm, gated feed-forward: the layers of
Qwen2.5 and Llama 3, without biases, with the linear layers that transformers gives them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .workloads import model_shapes

# Standard deviation of random weights; base of rotary positions.
_SPREAD, _THETA = 0.02, 1e6
Cache = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a layer."""

    hidden: int
    keys: int  # of all heads; values have as many
    inner: int  # of the feed-forward
    head: int = 128  # of one, in all of these models

    @classmethod
    def of(cls, name: str) -> Sizes:
        """Return those of a model, by the shapes of its layers."""
        layers = {x.label: x for x in model_shapes(name, 1)}
        if not {"qkv", "gate_up"} <= layers.keys():
            raise ValueError(f"--prefill takes no {name}: its layers are of another kind")
        qkv, gates = layers["qkv"], layers["gate_up"]
        return cls(qkv.K, (qkv.N - qkv.K) // 2, gates.N // 2)

    @property
    def weights(self) -> int:
        """Elements of the weights of a layer's linear layers."""
        return (2 * self.hidden + 2 * self.keys + 3 * self.inner) * self.hidden


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.q_proj = linear(sizes.hidden, sizes.hidden)
        self.k_proj = linear(sizes.hidden, sizes.keys)
        self.v_proj = linear(sizes.hidden, sizes.keys)
        self.o_proj = linear(sizes.hidden, sizes.hidden)
        self.gate_proj = linear(sizes.hidden, sizes.inner)
        self.up_proj = linear(sizes.hidden, sizes.inner)
        self.down_proj = linear(sizes.inner, sizes.hidden)
        self.attention_norm = nn.RMSNorm(sizes.hidden)
        self.feed_norm = nn.RMSNorm(sizes.hidden)

    def forward(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Return the next hidden states (tokens, hidden), and keys and values of all tokens."""
        normed, head = self.attention_norm(x), self.sizes.head
        q, k, v = (
            part(normed).view(len(x), -1, head).transpose(0, 1)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        first = 0 if cache is None else cache[0].shape[1]
        q, k = (_rotated(y, first) for y in (q, k))
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

    def __init__(self, sizes: Sizes, count: int, dtype: torch.dtype) -> None:
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


def _rotated(x: Tensor, first: int) -> Tensor:
    """Return heads (heads, tokens, size) turned by the angles of their positions."""
    half = x.shape[-1] // 2
    at = torch.arange(first, first + x.shape[1], dtype=torch.float64)
    angles = at[:, None] * _THETA ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
