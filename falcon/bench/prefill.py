"""`bench --prefill`: decoder layers with torch's linear layers, and with falcon's.

A case is the linear layers of a run: M tokens, and N x K weights, K of them the hidden size. After
each prefill follows a decoding step of one token.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

import falcon

from . import compare
from .compare import Comparison, Prepared, Say, Side
from .decoder import Architecture, Decoder, architecture
from .records import FALCON
from .workloads import Case, Shape

# Logits are compared at so many tokens, and formed for so many entries of the vocabulary at a time.
_COMPARED, _CHUNK = 256, 8192


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
            if getattr(torch, dtype, None) not in falcon.torch.ops.DTYPES:
                raise ValueError(
                    f"--dtype {dtype!r}: expected bfloat16, float16, float32 or float64"
                )
        self.sizes = {name: architecture(name) for name in options.model}
        self.layers = options.layers
        self.runs = {}  # of each case: the model, its tokens, and whether it is a decoding step
        for name, sizes in self.sizes.items():
            N = sizes.weights * options.layers // sizes.hidden_size
            for dtype in dtypes:
                for tokens in options.tokens:
                    for step in (False, True):
                        workload = f"{name} {f'decode after {tokens}' if step else 'prefill'}"
                        shape = Shape(1 if step else tokens, N, sizes.hidden_size)
                        case = Case(workload, shape, dtype)
                        self.runs[case] = name, tokens, step
        super().__init__(options, settings, [*self.runs])
        tokens = options.tokens
        self.config = falcon.torch.LinearConfig(
            settings["scheme"],
            settings["max_growth"],
            min_m=min(256, *tokens),
            rows=min(tokens),
            memory_limit=options.memory_limit,
        )
        torch.set_num_threads(self.threads)
        self._models: dict[tuple[str, str], _Models] = {}

    def asked(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return also how layers are converted."""
        return {**super().asked(machine), "config": str(self.config), "layers": self.layers}

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
        self, sizes: Architecture, dtype: str, layers: int, config: falcon.torch.LinearConfig
    ) -> None:
        self.sizes, self.dtype = sizes, getattr(torch, dtype)
        with torch.inference_mode():
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
        x = torch.randn(tokens, self.sizes.hidden_size, generator=generator).to(self.dtype)
        operands: tuple[Any, ...] = x[-1:] if step else x, self.stock(x)[1] if step else None

        @cache
        def agreement() -> Agreement:
            exact = _reference(self.stock, torch.cat([x, x[-1:]]) if step else x)
            both = (model(*operands)[0] for model in (self.stock, self.ours))
            return _agreement(self.sizes, exact[-1:] if step else exact, *both)

        def side(name: str, model: nn.Module) -> Side:
            def about(seconds: float) -> dict[str, Any]:
                found = agreement()
                is_ours = model is self.ours
                start = perf_counter()
                linear = _linear_seconds(model, *operands)
                facts = {
                    "tokens/s": len(operands[0]) / seconds,
                    "in linear layers": f"{100 * linear / (perf_counter() - start):.0f} %",
                    "same top-1": str(found) if is_ours else "",
                }
                return {
                    "library": "falcon" if is_ours else "PyTorch",
                    "version": falcon.__version__ if is_ours else torch.__version__,
                    "threads": torch.get_num_threads(),
                    "error": found.falcon if is_ours else found.torch,
                    "extra_bytes": self.report.extra_bytes if is_ours else 0,
                    "facts": facts,
                }

            call = Side.of(name, partial(model, *operands))
            return Side(name, call.time, about=about)

        return Prepared([side(FALCON, self.ours), side("torch", self.stock)], note=self.note)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How logits agree with a reference, and with each other."""

    # RMS errors of both against the reference, relative to it.
    torch: float
    falcon: float
    tokens: int
    agreeing: int  # tokens whose largest logit both put at the same place
    # Those of the others between whose two places the reference differs by less than twice the RMS
    # error of torch's logits.
    ties: int

    def __str__(self) -> str:
        text = f"{100 * self.agreeing / self.tokens:.1f} %"
        others = self.tokens - self.agreeing
        return f"{text} ({self.ties} of {others} others tie)" if others else text


def _linear_seconds(model: nn.Module, *operands: Any) -> float:
    """Return the time that linear layers take in a run."""
    spent, begun = [0.0], [0.0]

    def before(*_: Any) -> None:
        begun[0] = perf_counter()

    def after(*_: Any) -> None:
        spent[0] += perf_counter() - begun[0]

    hooks = []
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            hooks += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    model(*operands)
    for hook in hooks:
        hook.remove()
    return spent[0]


def _reference(model: Decoder, x: Tensor) -> Tensor:
    """Return the last hidden states by the next wider type, a layer at a time."""
    wide = torch.float64 if x.dtype.itemsize >= 4 else torch.float32
    x = x.to(wide)
    for layer in model.layers:
        x, _ = copy.deepcopy(layer).to(wide)(x, None)
    return x


def _agreement(sizes: Architecture, exact: Tensor, *both: Tensor) -> Agreement:
    """Compare the logits of torch's and falcon's hidden states, by one random output layer."""
    at = torch.linspace(0, len(exact) - 1, min(_COMPARED, len(exact))).long()
    reference, *normed = (
        nn.functional.rms_norm(h[at].double(), h.shape[-1:], eps=sizes.rms_norm_eps)
        for h in (exact, *both)
    )
    hidden = [reference.float(), *((h - reference).float() for h in normed)]
    generator = torch.Generator().manual_seed(2)
    squares = torch.zeros(3, dtype=torch.float64)  # of the reference, and of both errors
    best = torch.full((2, len(at)), -torch.inf)
    place = torch.zeros((2, len(at)), dtype=torch.long)
    of_best = torch.zeros((2, len(at)))  # the reference's logits there
    for first in range(0, sizes.vocab_size, _CHUNK):
        width = min(_CHUNK, sizes.vocab_size - first)
        weight = torch.randn(width, sizes.hidden_size, generator=generator) / 50
        right, *errors = logits = [nn.functional.linear(h, weight) for h in hidden]
        squares += torch.stack([y.double().square().sum() for y in logits])
        for i, error in enumerate(errors):
            most, where = (right + error).max(1)
            new = most > best[i]
            best[i][new], place[i][new] = most[new], where[new] + first
            of_best[i][new] = right.gather(1, where[:, None])[:, 0][new]
    by_torch, by_falcon = (squares[1:] / squares[0]).sqrt().tolist()
    rms = (squares[1] / len(at) / sizes.vocab_size).sqrt()
    differ = place[0] != place[1]
    ties = differ & ((of_best[0] - of_best[1]).abs() < 2 * rms)
    return Agreement(by_torch, by_falcon, len(at), int((~differ).sum()), int(ties.sum()))
