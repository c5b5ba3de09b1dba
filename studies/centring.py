"""Errors of centred products, over those of np.matmul, for data with a mean and without.

    python studies/centring.py [--sizes 1000,2048,4096] [--dtypes float32,float64] [--bound 10000]

RMS errors against float64, or longdouble for some rows: np.matmul is 1; schemes as they are, and
centred. With --bound, seeded random products whose errors must not exceed `Plan.error_bound`.
"""

import argparse

import numpy as np

import falcon

SCHEMES = ("auto", "strassen", "strassen@strassen", "3x6x4:54")


def _blocks(rng, shape):
    signs = np.where(rng.random([-(-n // 40) for n in shape]) < 0.5, -5, 5)
    return np.kron(signs, np.ones((40, 40)))[: shape[0], : shape[1]] + rng.standard_normal(shape)


def _waves(rng, shape):
    phases = np.arange(shape[1]) / 30 + rng.random((shape[0], 1)) * 6
    return np.sin(phases) + 0.1 * rng.standard_normal(shape)


def _image(rng, shape):
    y, x = (np.arange(n) / 90 for n in shape)
    return 128 + 60 * np.sin(y)[:, None] * np.cos(x) + 10 * rng.standard_normal(shape)


WITH_MEAN = {
    "uniform": lambda rng, shape: rng.random(shape),
    "exponential": lambda rng, shape: rng.exponential(1, shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 0.8, shape),
    "sorted": lambda rng, shape: np.sort(rng.random(shape)),
    "image": _image,
    "counts": lambda rng, shape: rng.poisson(3, shape) + 0.5 * rng.random(shape),
}
WITHOUT = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "sparse": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.01),
    "sparse positive": lambda rng, shape: rng.random(shape) * (rng.random(shape) < 0.02),
    "rectified": lambda rng, shape: np.maximum(rng.standard_normal(shape), 0),
    "blocks of +-5": _blocks,
    "waves": _waves,
}
KINDS = {**WITH_MEAN, **WITHOUT}


def drawn(kind, dtype, shape, seed=1):
    """Return A and B of a kind of data, for a product of M x K x N."""
    rng, (M, K, N) = np.random.default_rng(seed), shape
    return tuple(KINDS[kind](rng, x).astype(dtype) for x in ((M, K), (K, N)))


def exactly(a, b):
    """Return the product in a wider type."""
    wide = np.longdouble if a.dtype.itemsize == 8 else np.float64
    return a.astype(wide) @ b.astype(wide)


def off(c, e):
    """Return the root mean square and the largest error."""
    errors = np.abs(c - e)
    return float(np.sqrt(np.mean(errors**2))), float(errors.max())


def table(size, dtype):
    """Print the errors of all kinds of data at a size."""
    print(f"\n{dtype} {size}^3: RMS (largest) errors over np.matmul's; plain, centred")
    print(" " * 16 + "".join(f"{x:>27}" for x in SCHEMES))
    for kind in KINDS:
        a, b = drawn(kind, dtype, (size,) * 3)
        rows = slice(None) if dtype == "float32" else slice(None, None, size // 12)
        e = exactly(a[rows], b)
        base, row = off(np.matmul(a, b)[rows], e), ""
        for scheme in SCHEMES:
            for centre in (False, True if scheme != "auto" else None):
                c = falcon.gemm(a, b, scheme=scheme, backend="cpu", centre=centre)
                rms, most = (x / y for x, y in zip(off(c[rows], e), base, strict=True))
                row += f"{rms:7.2f} ({most:4.2f})"
        print(f"{kind:16}{row}", flush=True)


def bound(count):
    """Print how near errors come to their bounds in seeded products."""
    worst = 0.0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        shape = tuple(int(x) for x in 2 ** rng.uniform(5, 8.5, 3))
        a, b = drawn(list(KINDS)[seed % len(KINDS)], "float32", shape, seed)
        scheme = ("classical", *SCHEMES[1:])[seed % 4]
        plan = falcon.plan(a, b, scheme=scheme, backend="cpu", centre=True)
        errors, allowed = np.abs(plan(a, b) - exactly(a, b)), plan.error_bound(a, b)
        worst = max(worst, float((errors / np.where(allowed > 0, allowed, np.inf)).max()))
    print(f"{count} products: the largest error is {worst:.3f} of its bound")


def main():
    """Run the study."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--sizes", default="1000,2048,4096")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--bound", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.bound:
        bound(chosen.bound)
        return
    for dtype in chosen.dtypes.split(","):
        for size in map(int, chosen.sizes.split(",")):
            table(size, dtype)


if __name__ == "__main__":
    main()
