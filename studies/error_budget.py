"""Products whose error is named (`error=`), by kinds of data: how many err by more, and go up.

Each product is compared with one in float64, whole; where the error is below that of float64 sums,
some rows are formed in long double. Prints, by kind of data, the products, those over the error
(there must be none), the largest error over what was asked for, and the share that was made again
by the next arithmetic. Then the arithmetic that ran, by error and type.

    python studies/error_budget.py --products 1000 --most 2048
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from typing import Any

import numpy as np

import falcon
from falcon._core import sampled

SINGLE = [1e-1, 1e-2, 5e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
DOUBLE = [1e-1, 1e-2, 5e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9, 1e-12, 1e-14]
BUDGETS = {"float32": SINGLE, "float64": DOUBLE, "complex64": SINGLE, "complex128": DOUBLE}
# From which error on products in float64 are exact beside it.
FINE = 1e-11


def normal(r: Any, *s: int) -> np.ndarray:
    """Return normal numbers."""
    return r.standard_normal(s)


def outlier_features(r: Any, *s: int) -> np.ndarray:
    """Return normal numbers, a hundred times as large in one column of a hundred."""
    return normal(r, *s) * np.where(r.random(s[1]) < 0.01, 100, 1)


def outlier_rows(r: Any, *s: int) -> np.ndarray:
    """Return normal numbers, ten thousand times as large in one row of a hundred."""
    return normal(r, *s) * np.where(r.random((s[0], 1)) < 0.01, 1e4, 1)


def images(r: Any, *s: int) -> np.ndarray:
    """Return smooth rows of pixels, 0 to 255, of which a third is one colour."""
    steps = np.cumsum(r.standard_normal(s), axis=1)
    steps -= steps.min(axis=1, keepdims=True)
    pixels = np.rint(255 * steps / np.maximum(steps.max(axis=1, keepdims=True), 1e-9))
    pixels[:, : s[1] // 3] = 17
    return pixels / 255


def few_constants(r: Any, *s: int) -> np.ndarray:
    """Return normal rows, of which six at one place are constant, as features of a table are."""
    x = normal(r, *s)
    x[s[0] // 3 :][:6] = np.array([0.1, 0.25, 37.2, 1 / 12, 9.81, 72.5])[
        : max(s[0] - s[0] // 3, 0), None
    ]
    return x


def few_of_two_values(r: Any, *s: int) -> np.ndarray:
    """Return normal rows, of which six at one place have two values."""
    x = normal(r, *s)
    some = x[s[0] // 3 :][:6]
    some[...] = np.where(some > 0, 0.1, 0.37)
    return x


def clusters(r: Any, *s: int) -> np.ndarray:
    """Return rows near one of ten centres."""
    return normal(r, 10, s[1])[r.integers(0, 10, s[0])] + 0.1 * normal(r, *s)


def unit_rows(r: Any, *s: int) -> np.ndarray:
    """Return rows of norm 1, of which some are alike."""
    x = normal(r, *s)
    x[::7] = x[0] + 1e-3 * x[::7]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


KINDS = {
    "normal": normal,
    "uniform": lambda r, *s: r.random(s),
    "exponential": lambda r, *s: r.exponential(1, s),
    "lognormal": lambda r, *s: r.lognormal(0, 1, s),
    "student t3": lambda r, *s: r.standard_t(3, s),
    "outlier features": outlier_features,
    "outlier rows": outlier_rows,
    "sparse 1 %": lambda r, *s: normal(r, *s) * (r.random(s) < 0.01),
    "sorted": lambda r, *s: np.sort(normal(r, *s), axis=1),
    "images": images,
    "counts": lambda r, *s: r.poisson(0.5, s).astype(float),
    "unit rows": unit_rows,
    "constant lines": lambda r, *s: np.where(r.random((s[0], 1)) < 0.1, 0.1, r.random(s)),
    "lognormal 2": lambda r, *s: r.lognormal(0, 2, s),
    "cauchy": lambda r, *s: np.abs(r.standard_cauchy(s)),
    "zipf counts": lambda r, *s: np.minimum(r.zipf(1.8, s), 1e6) * 0.1,
    "a few constants": few_constants,
    "a few of two values": few_of_two_values,
    "clusters": clusters,
    "two values": lambda r, *s: np.where(r.random(s) < 0.5, 0.1, 0.37),
    "signs": lambda r, *s: np.where(r.random(s) < 0.5, -0.3, 0.3),
    "beyond float32": lambda r, *s: normal(r, *s) * 10.0 ** r.choice([-45, 0], (s[0], 1)),
}


def drawn(r: Any, kind: str, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Return a matrix of a kind."""
    x = KINDS[kind](r, *shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * KINDS[kind](r, *shape)
    return x.astype(dtype)


def exact(a: np.ndarray, b: np.ndarray, rows: Any, budget: float) -> np.ndarray:
    """Return some rows of a product, exact beside an error."""
    is_complex = a.dtype.kind == "c"
    if budget > FINE:
        kind = np.complex128 if is_complex else np.float64
        return np.matmul(a[rows].astype(kind), b.astype(kind))
    kind = np.clongdouble if is_complex else np.longdouble
    columns = np.ascontiguousarray(b.T).astype(kind)
    return np.array([(columns * x).sum(axis=1) for x in a[rows].astype(kind)])


def sizes(r: Any, most: int) -> tuple[int, int, int]:
    """Return M, K and N, of like magnitude."""
    n = int(np.exp(r.uniform(np.log(300), np.log(most))))
    return tuple(int(np.clip(n * r.choice([0.5, 1, 1, 1, 2]), 256, most)) for _ in range(3))


def one_set(r: Any, most: int, told: dict[str, Any]) -> int:
    """Multiply two matrices with each budget; return how many products that were."""
    kind = str(r.choice(list(KINDS)))
    dtype = str(r.choice(list(BUDGETS), p=[0.3, 0.4, 0.15, 0.15]))
    M, K, N = sizes(r, most if np.dtype(dtype).kind == "f" else max(most // 2, 300))
    a = drawn(r, kind, (M, K), dtype)
    gram = r.random() < 0.2
    b = a.T if gram else np.ascontiguousarray(drawn(r, kind, (N, K), dtype).T)
    wide = a.astype(np.result_type(dtype, np.float64)), b.astype(np.result_type(dtype, np.float64))
    lines = np.linalg.norm(wide[0], axis=1), np.linalg.norm(wide[1], axis=0)
    reference, few = exact(a, b, slice(None), 1.0), np.linspace(0, M - 1, 3).astype(int)
    finest = exact(a, b, few, 0.0) if min(BUDGETS[dtype]) <= FINE else None
    done = 0
    for budget in BUDGETS[dtype]:
        before = sum(sampled.again.values())
        try:
            plan = falcon.plan(a, b, error=budget)
            c = falcon.matmul(a, b, error=budget)
        except ValueError:
            told["refused"][dtype, budget] += 1
            continue
        rows = slice(None) if budget > FINE else few
        size = np.multiply.outer(lines[0][rows], lines[1])
        off = np.abs(c[rows] - (reference if budget > FINE else finest))
        known = size > np.finfo(dtype).tiny * 2.0**24  # not what underflows in the result's type
        worst = float(np.max(off[known] / size[known], initial=0.0)) / budget
        told["products"][kind] += 1
        told["over"][kind] += worst > 1
        told["worst"][kind] = max(told["worst"][kind], worst)
        told["again"][kind] += sum(sampled.again.values()) - before
        told["rungs"][dtype, budget][plan.label.split()[0] if " " in plan.label else "native"] += 1
        done += 1
        if worst > 1:
            print("over:", kind, dtype, (M, K, N), budget, f"{worst:.2f}", plan.label, flush=True)
    return done


def main() -> None:
    """Multiply and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=1000)
    parser.add_argument("--most", type=int, default=2048, help="largest size")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    how = parser.parse_args()
    r, done, end = np.random.default_rng(how.seed), 0, time.monotonic() + how.seconds
    told: dict[str, Any] = {x: Counter() for x in ("products", "over", "worst", "again", "refused")}
    told["rungs"] = defaultdict(Counter)
    while done < how.products and time.monotonic() < end:
        done += one_set(r, how.most, told)
    print(f"{done} products, {sum(told['over'].values())} over the error")
    for kind, count in sorted(told["products"].items()):
        share = 100 * told["again"][kind] / count
        print(f"{kind:18s} {count:6d} products, {told['over'][kind]} over, the largest "
              f"{told['worst'][kind]:.2f} of the error, {share:.1f} % made again")  # fmt: skip
    for (dtype, budget), rungs in sorted(told["rungs"].items()):
        print(f"{dtype:10s} {budget:.0e}", dict(rungs), "refused", told["refused"][dtype, budget])


if __name__ == "__main__":
    main()
