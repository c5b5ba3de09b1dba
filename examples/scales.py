"""Errors of LCMAs on operands of uneven scale: the figures of docs/decision.md (half a minute).

Each line: growth x s_A x s_B, by which "auto" decides, and the largest error of an entry in units
of eps norm(a_i) norm(b_j), that of NumPy behind it. Schemes are asked for by name, so that nothing
is refused.
"""

import numpy as np

import falcon
from falcon._core.spread import spread

SCHEMES = ("strassen", "3x6x4:54", "strassen@strassen", "strassen@3x6x4:54", "3x4x4:38")
M, N, K = 1500, 1500, 2000
RANDOM = np.random.default_rng(0)


def error(c, a, b):
    """Largest error in eps times the norms of the row and the column."""
    a, b = a.astype(float), b.astype(float)
    norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    return (np.abs(c - a @ b) / norms).max() / np.finfo(c.dtype).eps


def operands(kind, factor):
    """Normal float32 operands with something made `factor` times as large."""
    a, b = (RANDOM.standard_normal(x).astype("f4") for x in ((M, K), (K, N)))
    if kind == "uniform":
        return np.abs(a) % 1, np.abs(b) % 1
    if kind in ("row", "row and column"):
        a[17] *= factor
    if kind == "row and column":
        b[:, 33] *= factor
    if kind == "lognormal":
        a *= np.exp(np.log(factor) * RANDOM.standard_normal((M, 1))).astype("f4")
        b *= np.exp(np.log(factor) * RANDOM.standard_normal((1, N))).astype("f4")
    if kind == "six channels":
        a[:, RANDOM.integers(0, K, 6)] *= factor
    if kind == "lines of K":
        a[:, : K // 3] *= factor
        b[-K // 3 :] *= factor
    return a, b


cases = [("normal", 1), ("uniform", 1), ("six channels", 30), ("six channels", 1000)]
cases += [("lines of K", 1000), ("lognormal", 1.2), ("lognormal", 2), ("row", 10)]
cases += [("row and column", factor) for factor in (3, 10, 100)]
for kind, factor in cases:
    a, b = operands(kind, factor)
    rows, columns = ((x.astype(float) ** 2).sum(axis) for x, axis in ((a, 1), (b, 0)))
    found = []
    for name in SCHEMES:
        plan = falcon.plan(a, b, scheme=name)
        m, _, n = plan.scheme.format
        s = spread(rows, m, plan.option.chunks[0]) * spread(columns, n, plan.option.chunks[1])
        found.append(f"{plan.growth * s:.3g}: {error(plan(a, b), a, b):.2g}")
    print(f"{kind} x {factor}".ljust(22), ", ".join(found), f"(NumPy {error(a @ b, a, b):.2g})")

for size in (1024, 2000, 3000):  # entries of one sign, by "auto" and classically
    a, b = (RANDOM.random((size, size), dtype="f4") for _ in range(2))
    chosen, classical = falcon.plan(a, b), falcon.gemm(a, b, scheme="classical")
    errors = error(chosen(a, b), a, b), error(classical, a, b), 4 * np.sqrt(size)
    print(
        f"uniform {size}: {chosen.option.label} %.1f, classical %.1f; 8 u sqrt(K) is %.0f" % errors
    )
