"""Shapes and operands of all benchmarks; operands are made once per process and read-only."""

import os
from functools import lru_cache

import numpy as np

import falcon

SHAPES = {
    "square 512": (512, 512, 512),
    "square 1024": (1024, 1024, 1024),
    "odd": (777, 555, 999),
    "rank-k update": (1024, 1024, 128),
    "tall": (4096, 64, 512),
    "few rows": (32, 4096, 4096),
    "few columns": (4096, 29, 2048),
}
DTYPES = ("float32", "float64")


@lru_cache
def operands(shape, dtype):
    """A and B of a shape class, read-only, and C."""
    M, N, K = SHAPES[shape]
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(size).astype(dtype) for size in ((M, K), (K, N)))
    for x in (a, b):
        if x.dtype.kind == "c":
            x.imag = random.standard_normal(x.shape)
        x.flags.writeable = False
    return a, b, np.empty((M, N), dtype)


def thread_counts():
    """Return 1 and the number of CPUs that may be used."""
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return sorted({1, every or 1})


def require(backend):
    """Skip a benchmark whose backend is not available."""
    state = falcon.show_config("dict")["backends"].get(backend, "missing")
    if state != "available":
        raise NotImplementedError(f"backend {backend}: {state}")
