"""Memory of packed operands against what they gain.

``python studies/packed_memory.py [--model Qwen2.5-7B] [--tokens 2048] [--dtype float32]`` prints,
per layer and limit of the panels' memory, the scheme that is packed, its memory, and the time of
falcon's own choice for B as it is over that of the packed operand: predicted, and measured in turn.
Where panels are predicted to gain nothing, the operand is not packed.
"""

from __future__ import annotations

import argparse
from functools import partial

from common import operands, show

import falcon
from falcon._tools.timing import Side, interleave
from falcon.bench.workloads import layers, parse_shape

COPIES = (1, 2, 2.5, 3, 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="Qwen2.5-7B")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--shape", help="M,N,K in place of a model's layers")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--arithmetic", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    one = options.shape and [parse_shape(options.shape)]
    rows = [("layer", "limit, B", "scheme", "MiB", "of B", "gain predicted", "gain measured", "")]
    for shape in one or layers((options.model,), options.tokens):
        a, b, out = operands((shape.M, shape.N, shape.K), options.dtype)
        before = set()
        for copies in COPIES:
            limit = int(copies * b.nbytes)
            how = {"arithmetic": options.arithmetic}
            packed = falcon.pack(b, rows=shape.M, memory_limit=limit, **how)
            plan = falcon.plan(a, packed)
            if plan.label in before:
                continue  # the limit made no difference
            before.add(plan.label)
            sides = [Side.of("packed", partial(falcon.gemm, a, packed, out=out)),
                     Side.of("plain", partial(falcon.gemm, a, b, out=out, **how))]  # fmt: skip
            mine, plain = interleave(sides, options.rounds)
            best, other = (x.total for x in plan.candidates) if packed.is_packed else (1, 1)
            rows.append((shape.label or str(shape), f"{copies:g}", plan.label,
                         f"{packed.nbytes / 2**20:.0f}", f"{packed.nbytes / b.nbytes:.2f}",
                         f"{other / best:.2f}", str(mine.over(plain)), ""))  # fmt: skip
    show(rows, left=3)


if __name__ == "__main__":
    main()
