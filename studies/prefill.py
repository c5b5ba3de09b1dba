"""Decoder layers with torch's linear layers, and falcon's: ``studies/prefill.py --model NAME``.

The layers are those of Qwen2.5 and Llama 3 with random weights: norm, attention of grouped heads
with rotary positions, norm, gated feed-forward, without biases, with the linear layers that
transformers gives them. Both sides run in turns. A case is the linear layers of a run: M tokens,
and N x K weights, K of them the hidden size. After each prefill follows a decoding step of one
token.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import falcon
from falcon.bench.command import add_measurement, counts
from falcon.bench.compare import Comparison, Prepared, Say, Side
from falcon.bench.records import FALCON
from falcon.bench.run import run
from falcon.bench.workloads import Case, Shape, model_shapes

# Standard deviation of random weights; base of rotary positions.
SPREAD, THETA = 0.02, 1e6
Cache = tuple[Tensor, Tensor]


class Prefill(Comparison):
    """Stock torch and the same layers converted; the models of one size and dtype are kept."""

    def __init__(self, options: argparse.Namespace) -> None:
        settings = {"scheme": options.scheme, "max_growth": options.max_growth}
        self.sizes = {name: Sizes.of(name) for name in options.model}
        self.layers = options.layers
        self.runs = {}  # of each case: the model, its tokens, and whether it is a decoding step
        every = product(self.sizes.items(), options.dtype, options.tokens, (False, True))
        for (name, sizes), dtype, tokens, step in every:
            N = sizes.weights * options.layers // sizes.hidden
            workload = f"{name} {f'decode after {tokens}' if step else 'prefill'}"
            shape = Shape(1 if step else tokens, N, sizes.hidden)
            self.runs[Case(workload, shape, dtype)] = name, tokens, step
        super().__init__(options, settings, [*self.runs])
        rows = min(options.tokens)
        self.config = falcon.torch.LinearConfig(**settings, rows=rows)
        torch.set_num_threads(self.threads)
        self._models: dict[tuple[str, str], Models] = {}

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return also how layers are converted."""
        return {**super().identity(machine), "config": str(self.config), "layers": self.layers}

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Yield both models on the same random hidden states."""
        name, tokens, step = self.runs[case]
        if (name, case.dtype) not in self._models:
            self._models = {}  # frees those before
            say(f"{name}, {case.dtype}: converting the layers")
            made = Models(self.sizes[name], case.dtype, self.layers, self.config)
            self._models[name, case.dtype] = made
        with torch.inference_mode():
            yield self._models[name, case.dtype].prepared(tokens, step)


class Models:
    """Some layers as they are, and converted."""

    def __init__(
        self, sizes: Sizes, dtype: str, layers: int, config: falcon.torch.LinearConfig
    ) -> None:
        self.width, self.dtype = sizes.hidden, getattr(torch, dtype)
        with torch.no_grad():
            self.stock = Decoder(sizes, layers, self.dtype).eval()
            self.ours = copy.deepcopy(self.stock, {id(x): x for x in self.stock.parameters()})
            self.report = falcon.torch.convert_(self.ours, config)
        weights = sum(x.numel() * x.element_size() for x in self.stock.parameters()) / 2**20
        self.note = (
            f"{layers} decoder layers with random weights, {weights:.0f} MiB of weights, "
            f"{self.report.extra_bytes / 2**20:.0f} MiB of panels\n\n{self.report}\n"
        )

    def prepared(self, tokens: int, step: bool) -> Prepared:
        """Return the sides of a run of that many tokens, or of the step after it."""
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(tokens, self.width, generator=generator).to(self.dtype)
        operands: tuple[Any, ...] = x[-1:] if step else x, self.stock(x)[1] if step else None

        @cache
        def exact() -> Tensor:
            states = reference(self.stock, torch.cat([x, x[-1:]]) if step else x)
            return states[-1:] if step else states

        def side(name: str, model: nn.Module) -> Side:
            def about(seconds: float) -> dict[str, Any]:
                is_ours = model is self.ours
                layers = {k: x for k, x in model.named_modules() if isinstance(x, nn.Linear)}
                whole, calls = falcon.torch.forward.watch(model, layers, operands)
                share = sum(taken for _, _, taken in calls) / whole
                facts = {
                    "tokens/s": len(operands[0]) / seconds,
                    "in linear layers": f"{100 * share:.0f} %",
                }
                return {
                    "library": "falcon" if is_ours else "PyTorch",
                    "version": falcon.__version__ if is_ours else torch.__version__,
                    "threads": torch.get_num_threads(),
                    "error": float((model(*operands)[0] - exact()).norm() / exact().norm()),
                    "extra_bytes": self.report.extra_bytes if is_ours else 0,
                    "facts": facts,
                }

            return Side.of(name, partial(model, *operands), about=about)

        return Prepared([side(FALCON, self.ours), side("torch", self.stock)], note=self.note)


def reference(model: Decoder, x: Tensor) -> Tensor:
    """Return the last hidden states by the next wider type; only one layer at a time is copied."""
    wide = torch.float64 if x.dtype.itemsize >= 4 else torch.float32
    x = x.to(wide)
    for layer in model.layers:
        x, _ = copy.deepcopy(layer).to(wide)(x, None)
    return x


# --- the layers ------------------------------------------------------------------------------


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
            raise ValueError(f"--model {name}: its layers are of another kind")
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
        q, k = (rotated(y, first) for y in (q, k))
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
                    x.normal_(0.0, SPREAD, generator=generator)
        self.requires_grad_(False)

    def forward(self, x: Tensor, caches: list[Cache] | None = None) -> tuple[Tensor, list[Cache]]:
        """Return the last hidden states, and the caches of all layers."""
        kept = []
        for at, layer in enumerate(self.layers):
            x, cache = layer(x, None if caches is None else caches[at])
            kept.append(cache)
        return x, kept


def rotated(x: Tensor, first: int) -> Tensor:
    """Return heads (heads, tokens, size) turned by the angles of their positions."""
    half = x.shape[-1] // 2
    at = torch.arange(first, first + x.shape[1], dtype=torch.float64)
    angles = at[:, None] * THETA ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", required=True, help="Qwen2.5-7B (repeatable)")
    parser.add_argument("--tokens", type=counts, default=[2048], help="several with commas")
    parser.add_argument("--dtype", type=lambda x: x.split(","), default=["float32"],
                        help="several with commas (default float32)")  # fmt: skip
    parser.add_argument("--layers", type=int, default=1, help="decoder layers (default 1)")
    parser.add_argument("--scheme", default="auto")
    parser.add_argument("--max-growth", type=float)
    parser.add_argument("--threads", type=int)
    add_measurement(parser)
    options = parser.parse_args()
    return run(Prefill(options), options)


if __name__ == "__main__":
    sys.exit(main())
