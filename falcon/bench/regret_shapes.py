"""The shapes of the regret benchmark: layers, squares, odd, thin and log-uniform sizes."""

from __future__ import annotations

import numpy as np

from .workloads import Shape, model_shapes, models

# Libraries other than NumPy are measured only if all sizes are at least this: it takes long.
LARGE = 1024
_LEAST_FLOPS = 2e7
# The most for float32, per thread; half of it for float64, which takes as many seconds. Layers may
# have more, otherwise none of a prefill would be left.
_MOST_FLOPS = 3e10
_MOST_LAYER_FLOPS = 4 * _MOST_FLOPS
_MOST_WEIGHTS = 2**28  # elements of a layer's B


def shapes(dtype: str, threads: int, count: int, seed: int = 0) -> list[tuple[str, Shape]]:
    """Return a sample of shapes with bounded work; equal seeds give equal samples.

    Parameters
    ----------
    count : int
        A quarter of them are layers; then come odd ones, a fifth, squares and thin ones, a tenth
        each, and log-uniform sizes 128..8192.
    """
    itemsize = np.dtype(dtype).itemsize
    random = np.random.default_rng([threads, itemsize] if seed == 0 else [threads, itemsize, seed])
    scale = threads * 4 / itemsize
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
    wanted = ["odd"] * (count // 5) + ["square"] * (count // 10) + ["thin"] * (count // 10)
    wanted += ["log-uniform"] * (count - len(found) - len(wanted))
    for kind in wanted:
        while True:
            sizes = (2 ** random.uniform(7, 13, 3)).astype(int).tolist()
            if kind == "odd":
                sizes = [x | 1 for x in sizes]
            elif kind == "square":
                sizes = [sizes[0]] * 3
            elif kind == "thin":
                sizes[int(random.integers(3))] = int(random.integers(2, 128))
            M, N, K = sizes
            if _LEAST_FLOPS <= 2.0 * M * N * K <= _MOST_FLOPS * scale:
                found.append((kind, Shape(M, N, K)))
                break
    # The kinds are mixed, so that a run that is stopped has some of each.
    return [found[i] for i in random.permutation(len(found)).tolist()]
