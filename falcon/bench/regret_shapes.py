"""The shapes of the regret benchmark: layers, odd and log-uniform sizes, the same every time."""

from __future__ import annotations

import numpy as np

from .workloads import Shape, model_shapes, models

# Other libraries than NumPy are measured where all sizes are at least this: it takes long.
LARGE = 1024
_LEAST_FLOPS = 2e7
# The most for float32, per thread; float64 half of it: as many seconds. Of layers, more, or none of
# a prefill would be left.
_MOST_FLOPS = 3e10
_MOST_LAYER_FLOPS = 4 * _MOST_FLOPS
_MOST_WEIGHTS = 2**28  # elements of a layer's B


def shapes(dtype: str, threads: int, count: int) -> list[tuple[str, Shape]]:
    """Model layers, odd sizes and log-uniform sizes, with bounded work; the same every time.

    Parameters
    ----------
    count : int
        A quarter of them are layers, a fifth odd.
    """
    itemsize = np.dtype(dtype).itemsize
    random, scale = np.random.default_rng([threads, itemsize]), threads * 4 / itemsize
    layers = [
        Shape(tokens, x.N, x.K, f"{model} {x.label}")
        for model in models()
        for x in model_shapes(model, 1)
        for tokens in (32, 128, 512, 1024, 2048)
        if x.N * x.K <= _MOST_WEIGHTS
        and _LEAST_FLOPS <= 2.0 * tokens * x.N * x.K <= _MOST_LAYER_FLOPS * scale
    ]
    picked = random.permutation(len(layers))[: count // 4]
    found = [("layer", layers[i]) for i in sorted(picked.tolist())]
    while len(found) < count:
        sizes = (2 ** random.uniform(7, 13, 3)).astype(int).tolist()
        odd = len(found) < count // 4 + count // 5
        M, N, K = (x | 1 if odd else x for x in sizes)
        if _LEAST_FLOPS <= 2.0 * M * N * K <= _MOST_FLOPS * scale:
            found.append(("odd" if odd else "log-uniform", Shape(M, N, K)))
    # The kinds mixed, so that a run that is stopped has some of each.
    return [found[i] for i in random.permutation(len(found)).tolist()]
