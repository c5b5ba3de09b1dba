"""Products modulo p and those of FLINT and galois: ``python studies/modular.py WHAT [p ...]``.

    flint   2048^3: falcon over python-flint's nmod_mat, and over float64's product by "auto"; "with
            arrays" adds the time in which NumPy arrays become nmod_mat, and the product an array
    galois  1024^3: falcon over GF(p)'s product; a slow one is timed by some rows
    small   64^3: microseconds of falcon, FLINT and galois, and those beyond np.matmul in
            float64

Operands are random residues as int64 (galois': as GF(p) holds them). FLINT uses as many threads as
falcon. The moduli are by default primes near 1009, 2^20, 2^26, 2^31 and 2^61. Needs python-flint,
galois.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from importlib.metadata import version

import numpy as np
from common import same_threads, seconds, show

import falcon
from falcon._core.options import thread_count
from falcon._tools.timing import REST_SECONDS, Side, interleave
from falcon.bench.tables import INTERVAL

MODULI = 1009, 2**20 + 7, 2**26 - 5, 2**31 - 1, 2**61 - 1
# A product by galois that takes longer is timed by so many rows.
MOST_SECONDS, ROWS = 3.0, 16


def residues(size, p):
    a, b = np.random.default_rng(size).integers(0, p, (2, size, size))
    return a, b, np.empty_like(a)


def compared(sides, rounds):
    """Time sides in turn: milliseconds of each, and the speed of the first over the others."""
    for call in sides.values():
        call()
    turns = [Side.of(*x) for x in sides.items()]
    records = interleave(turns, rounds, most=rounds, calls=1)
    ours, *others = records
    times = [f"{1e3 * x.median:.1f}" for x in records]
    return [*times, *(str(ours.over(x)) for x in others)]


def flints(a, p):
    import flint

    flint.ctx.threads = thread_count()
    return flint.nmod_mat(*a.shape, a.ravel().tolist(), p)


def flint(moduli, size, rounds):
    rows = [("p", "falcon ms", "FLINT ms", "with arrays", "float64 ms", "over FLINT", "with arrays",
             "over float64", "plan")]  # fmt: skip
    for p in moduli:
        a, b, out = residues(size, p)
        start = time.perf_counter()
        x, y = flints(a, p), flints(b, p)
        between, product = time.perf_counter() - start, x * y
        start = time.perf_counter()
        found = np.array([int(z) for z in product.entries()]).reshape(size, size)
        between += time.perf_counter() - start
        u, v, w = (z.astype(np.float64) for z in (a, b, out))
        sides = {
            "falcon": partial(falcon.matmul, a, b, out, modulus=p),
            "FLINT": lambda x=x, y=y: x * y,
            "float64": partial(falcon.gemm, u, v, out=w),
        }
        ours, theirs, double, *ratios = compared(sides, rounds)
        whole = float(theirs) + 1e3 * between
        ratios.insert(1, f"{whole / float(ours):.1f}")
        label = falcon.plan(a, b, modulus=p).label
        rows.append((p, ours, theirs, f"{whole:.1f}", double, *ratios, label))
        if not np.array_equal(found, out):
            raise AssertionError(f"falcon and FLINT differ modulo {p}")
    show(rows)


def galois(moduli, size, rounds):
    from galois import GF

    rows = [("p", "dtype", "falcon ms", "galois ms", "over galois")]
    for p in moduli:
        a, b = (GF(p).Random((size, size), seed=x) for x in (0, 1))
        x, y = (z.view(np.ndarray) for z in (a, b))
        part = a[:ROWS]
        np.matmul(part, b)  # compiles
        each = seconds(partial(np.matmul, part, b), count=1)
        ours = partial(falcon.matmul, x, y, modulus=p)
        if each * size / ROWS < MOST_SECONDS:
            sides = {"falcon": ours, "galois": partial(np.matmul, a, b)}
            rows.append((p, a.dtype, *compared(sides, rounds)))
            continue
        mine = seconds(ours, rest=REST_SECONDS, count=rounds)
        theirs = size / ROWS * seconds(partial(np.matmul, part, b), count=rounds)
        told = f"{theirs / mine:.0f} ({ROWS} rows of it)"
        rows.append((p, a.dtype, f"{1e3 * mine:.1f}", f"{1e3 * theirs:.0f}", told))
    show(rows)


def small(moduli, size, rounds):
    from galois import GF

    rows = [("p", "falcon us", "np.matmul float64 us", "FLINT us", "galois us", "more")]
    u, v, w = (x.astype(np.float64) for x in residues(size, 9))
    for p in moduli:
        a, b, out = residues(size, p)
        x, y, left, right = flints(a, p), flints(b, p), a.view(GF(p)), b.view(GF(p))
        calls = (
            (partial(falcon.matmul, a, b, out, modulus=p), 500),
            (partial(np.matmul, u, v, out=w), 500),
            (lambda x=x, y=y: x * y, 100),
            (partial(np.matmul, left, right), 100 if p < 2**27 else 2),
        )
        calls[-1][0]()  # compiles
        sides = [Side(str(i), lambda _, call=call, n=n: seconds(call, count=n))
                 for i, (call, n) in enumerate(calls)]  # fmt: skip
        records = interleave(sides, rounds, most=rounds, calls=1)
        each = [1e6 * np.array(x.seconds) for x in records]
        rows.append((p, *(f"{np.median(x):.1f}" for x in (*each, each[0] - each[1]))))
    show(rows)


WHAT = {"flint": (flint, 2048), "galois": (galois, 1024), "small": (small, 64)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("moduli", nargs="*", type=int)
    parser.add_argument("--size", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    measure, size = WHAT[options.what]
    threads = same_threads()
    # galois holds residues of larger moduli as objects.
    usual = MODULI if measure is flint else [p for p in MODULI if p < 2**32]
    measure(options.moduli or usual, options.size or size, options.rounds)
    packages = [f"{x} {version(x)}" for x in ("numpy", "python-flint", "galois")]
    print(f"\n{threads} threads; {', '.join(packages)}; {INTERVAL}")


if __name__ == "__main__":
    main()
