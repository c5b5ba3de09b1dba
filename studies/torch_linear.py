"""`falcon.torch.linear` and packed weights beside `torch.nn.functional.linear`: speed and errors.

``python studies/torch_linear.py [--shape N,K] [--tokens 1,512,2048]`` prints, per dtype and number
of tokens, torch's time, that over those of `linear` and of a layer that was converted, packed for
512 tokens, and the RMS errors against float64.
"""

from __future__ import annotations

import argparse
from functools import partial

from common import same_threads, show

from falcon._tools.timing import Side, interleave


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="4608,3584", help="N,K of the weights")
    parser.add_argument("--tokens", default="1,512,2048")
    parser.add_argument("--dtype", default="float32,bfloat16")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import torch

    import falcon.torch

    same_threads()
    N, K = (int(x) for x in options.shape.split(","))
    rows = [("dtype", "tokens", "torch, ms", "over linear's", "over converted's", "errors", "")]
    for dtype in options.dtype.split(","):
        kind, made = getattr(torch, dtype), torch.Generator().manual_seed(0)
        layer = torch.nn.Linear(K, N, dtype=kind).requires_grad_(False)
        w, bias = (x.normal_(generator=made) for x in (layer.weight, layer.bias))
        falcon.torch.convert_(layer, falcon.torch.LinearConfig(measure=False))
        for tokens in (int(x) for x in options.tokens.split(",")):
            x = torch.randn(tokens, K, generator=made).to(kind)
            calls = [partial(f, x, w, bias)
                     for f in (torch.nn.functional.linear, falcon.torch.linear)]  # fmt: skip
            calls.append(partial(layer, x))
            theirs, *ours = interleave([Side.of(str(i), f) for i, f in enumerate(calls)],
                                       options.rounds)  # fmt: skip
            some = slice(0, 64)
            exact = x[some].double() @ w.double().mT + bias.double()
            errors = [((f()[some].double() - exact).norm() / exact.norm()).item() for f in calls]
            rows.append((dtype, str(tokens), f"{theirs.median * 1e3:.2f}",
                         *(str(x.over(theirs)) for x in ours),
                         " / ".join(f"{e:.1e}" for e in errors), ""))  # fmt: skip
    show(rows, left=2)


if __name__ == "__main__":
    main()
