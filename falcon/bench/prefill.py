"""``python -m falcon bench --prefill``: decoder layers with torch's linear layers and falcon's."""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

import falcon
from falcon._core.options import thread_count
from falcon._core.text import format_table
from falcon._core.timing import Estimate, Side, interleave

from .decoder import Architecture, Decoder, architecture

# Logits are compared at so many tokens, and formed for so many entries of the vocabulary at a time.
_COMPARED, _CHUNK = 256, 8192


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


def run(options: argparse.Namespace, falcon_options: dict[str, Any], tokens: list[int],
        dtypes: list[str]) -> int:  # fmt: skip
    """Measure every model, dtype and number of tokens, and print a table per model and dtype."""
    if not options.model:
        raise ValueError("--prefill needs --model, such as Qwen2.5-7B")
    if options.layers < 1:
        raise ValueError("--layers must be at least 1")
    if options.arithmetic != "auto":
        raise ValueError("--prefill takes no --arithmetic; FALCON_ARITHMETIC sets it")
    for dtype in dtypes:
        if getattr(torch, dtype, None) not in falcon.torch.ops.DTYPES:
            raise ValueError(f"--dtype {dtype!r}: expected bfloat16, float16, float32 or float64")
    torch.set_num_threads(thread_count(falcon_options["threads"]))
    growth = falcon_options["max_growth"]
    config = falcon.torch.LinearConfig(
        falcon_options["scheme"],
        growth,
        min_m=min(256, *tokens),
        rows=min(tokens),
        memory_limit=options.memory_limit,
    )
    found = []
    for model in options.model:
        sizes = architecture(model)
        for dtype in dtypes:
            about = measure(sizes, dtype, tokens, options.layers, config, options.rounds)
            found.append({"model": model, "dtype": dtype, "layers": options.layers, **about})
            if not options.json:
                _show(found[-1])
    if options.json:
        print(json.dumps(found, indent=1, default=_plain))
    return 0


@torch.inference_mode()
def measure(sizes: Architecture, dtype: str, tokens: list[int], layers: int,
            config: falcon.torch.LinearConfig, rounds: int) -> dict[str, Any]:  # fmt: skip
    """Return what was measured of some layers, with an entry per number of tokens."""
    stock = Decoder(sizes, layers, getattr(torch, dtype)).eval()
    ours = copy.deepcopy(stock, {id(x): x for x in stock.parameters()})
    report = falcon.torch.convert_(ours, config)
    weights = sum(x.numel() * x.element_size() for x in stock.parameters())
    generator = torch.Generator().manual_seed(1)
    entries = []
    for count in tokens:
        print(f"{count} tokens, {dtype}", file=sys.stderr, flush=True)
        x = torch.randn(count, sizes.hidden_size, generator=generator).to(getattr(torch, dtype))
        mine, theirs = interleave(_sides(ours, stock, x), rounds)
        (y, caches), (z, _) = stock(x), ours(x)
        agreement = _agreement(sizes, _reference(stock, x), y, z)
        decoded, by_torch = interleave(_sides(ours, stock, x[-1:], caches), rounds)
        entries.append({
            "tokens": count, "torch": theirs.median, "falcon": mine.median,
            "ratio": mine.over(theirs), "agreement": agreement,
            "linear": [_share(model, x) for model in (stock, ours)],
            "decode": decoded.over(by_torch), "decode_torch": by_torch.median,
        })  # fmt: skip
    return {"weights": weights, "panels": report.extra_bytes, "rows": report.rows,
            "report": str(report), "entries": entries}  # fmt: skip


def _sides(ours: nn.Module, stock: nn.Module, *operands: Any) -> list[Side]:
    both = {"falcon": ours, "torch": stock}
    return [Side.of(name, partial(model, *operands)) for name, model in both.items()]


def _share(model: nn.Module, x: Tensor) -> float:
    """Return the share of a run's time that linear layers take."""
    spent, begun = [0.0], [0.0]

    def before(*_: Any) -> None:
        begun[0] = perf_counter()

    def after(*_: Any) -> None:
        spent[0] += perf_counter() - begun[0]

    hooks = []
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            hooks += [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
    start = perf_counter()
    model(x)
    total = perf_counter() - start
    for hook in hooks:
        hook.remove()
    return spent[0] / total


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


def _show(found: dict[str, Any]) -> None:
    mib = [found[name] / 2**20 for name in ("weights", "panels")]
    print(f"\n{found['model']}, {found['dtype']}, {found['layers']} decoder layers with random "
          f"weights, {torch.get_num_threads()} threads, torch {torch.__version__}: "
          f"{mib[0]:.0f} MiB of weights, {mib[1]:.0f} MiB of panels\n\n"
          f"{found['report']}\n")  # fmt: skip
    rows: list[tuple[str, ...]]
    rows = [("tokens", "torch, tokens/s", "falcon, tokens/s", "torch's time over falcon's",
             "time in linear layers", "errors", "same top-1", "decode, ms",
             "torch's over falcon's", "")]  # fmt: skip
    for x in found["entries"]:
        count, agreement = x["tokens"], x["agreement"]
        rows.append((str(count), *(f"{count / x[side]:.1f}" for side in ("torch", "falcon")),
                     str(x["ratio"]), " / ".join(f"{100 * y:.0f} %" for y in x["linear"]),
                     f"{agreement.torch:.1e} / {agreement.falcon:.1e}", str(agreement),
                     f"{x['decode_torch'] * 1e3:.1f}", str(x["decode"]), ""))  # fmt: skip
    print(format_table(rows))
    print("time in linear layers, errors: torch / falcon; errors: RMS of the logits against those "
          "of the next wider type;\ntie: the reference's logits at both places differ by less than "
          "twice torch's RMS error")  # fmt: skip


def _plain(x: Any) -> Any:
    if isinstance(x, Estimate):
        return x.document()
    return {name: getattr(x, name) for name in x.__slots__}
