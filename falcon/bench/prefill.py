"""`bench --prefill`: decoder layers with torch's linear layers, and with falcon's.

A case is the linear layers of a run: M tokens, and N x K weights, K of them the hidden size. After
each prefill follows a decoding step of one token.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

import falcon

from . import compare
from .compare import Comparison, Prepared, Say, Side
from .decoder import Decoder, Sizes
from .records import FALCON
from .workloads import Case, Shape


class Prefill(Comparison):
    """Stock torch and the same layers converted; the models of one size and dtype are kept."""

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        if not options.model:
            raise ValueError("--prefill needs --model, such as Qwen2.5-7B")
        if options.layers < 1:
            raise ValueError("--layers must be at least 1")
        if options.arithmetic != "auto":
            raise ValueError("--prefill takes no --arithmetic; FALCON_ARITHMETIC sets it")
        dtypes = compare.dtypes(options) or ["float32"]
        for dtype in dtypes:
            if getattr(torch, dtype, None) not in falcon.torch.operands.DTYPES:
                known = "bfloat16, float16, float32 or float64"
                raise ValueError(f"--dtype {dtype!r}: expected {known}")
        self.sizes = {name: Sizes.of(name) for name in options.model}
        self.layers = options.layers
        self.runs = {}  # of each case: the model, its tokens, and whether it is a decoding step
        every = product(self.sizes.items(), dtypes, options.tokens, (False, True))
        for (name, sizes), dtype, tokens, step in every:
            N = sizes.weights * options.layers // sizes.hidden
            workload = f"{name} {f'decode after {tokens}' if step else 'prefill'}"
            shape = Shape(1 if step else tokens, N, sizes.hidden)
            self.runs[Case(workload, shape, dtype)] = name, tokens, step
        super().__init__(options, settings, [*self.runs])
        how, rows = (settings["scheme"], settings["max_growth"]), min(options.tokens)
        self.config = falcon.torch.LinearConfig(*how, min_m=min(256, rows), rows=rows)
        torch.set_num_threads(self.threads)
        self._models: dict[tuple[str, str], _Models] = {}

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
            made = _Models(self.sizes[name], case.dtype, self.layers, self.config)
            self._models[name, case.dtype] = made
        with torch.inference_mode():
            yield self._models[name, case.dtype].prepared(tokens, step)


class _Models:
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
            states = _reference(self.stock, torch.cat([x, x[-1:]]) if step else x)
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


def _reference(model: Decoder, x: Tensor) -> Tensor:
    """Return the last hidden states by the next wider type; only one layer at a time is copied."""
    wide = torch.float64 if x.dtype.itemsize >= 4 else torch.float32
    x = x.to(wide)
    for layer in model.layers:
        x, _ = copy.deepcopy(layer).to(wide)(x, None)
    return x
