"""Errors where units along K differ, over those of np.matmul, for kinds of data that users have.

    python studies/units.py [--shape 2000,1500,1200] [--dtypes float32,float64,complex64]

RMS errors against a wider type, over the larger of np.matmul's and of a rounding of C: of the same
scheme by name, which nothing evens, of "auto", and of a B that was packed for it.
"""

import argparse

import numpy as np

import falcon


def _decades(number):
    def scales(rng, K):
        return 10 ** rng.uniform(-number / 2, number / 2, K)

    return scales


def _against(scales, mean=0.0):
    """Columns of A in units, which rows of B fold back."""

    def draw(rng, M, K, N):
        s = scales(rng, K)
        return (rng.standard_normal((M, K)) + mean) * s, rng.standard_normal((K, N)) / s[:, None]

    return draw


def _one_hot(rng, M, K, N):
    a, b = _against(_decades(6))(rng, M, K, N)
    a[:, : K // 2], a[np.arange(M), rng.integers(0, K // 2, M)] = 0, 1
    b[: K // 2] = rng.standard_normal((K // 2, N))
    return a, b


def _rare(rng, M, K, N):
    """A few columns that are mostly zeros, and in other units where they are not."""
    a, b = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    some = np.arange(K) % 50 == 7
    a[:, some] = np.where(rng.random((M, some.sum())) < 0.02, 1e6 * a[:, some], 0)
    b[some] *= 1e-6
    return a, b


def _prices(rng, M, K, N):
    s = 10 ** rng.uniform(0, 5, K)
    return np.rint(np.abs(rng.standard_normal((M, K)) * s + s)), rng.standard_normal((K, N)) / s[
        :, None
    ]


def _vandermonde(rng, M, K, N):
    x, powers = rng.uniform(-1.5, 1.5, (M, 1)), np.arange(K) % 24
    a = x**powers
    return a, rng.standard_normal((K, N)) / np.sqrt(np.mean(a**2, axis=0))[:, None]


def _polynomials(rng, M, K, N):
    x = 100 * rng.standard_normal((M, -(-K // 3)))
    a = np.concatenate([x, x**2, x**3], axis=1)[:, :K]
    return a, rng.standard_normal((K, N)) / np.sqrt(np.mean(a**2, axis=0))[:, None]


def _whitened(rng, M, K, N):
    """Principal components, and what brings them to one size."""
    s = 1 / np.arange(1.0, K + 1)
    return rng.standard_normal((M, K)) * s, np.linalg.qr(rng.standard_normal((K, N)))[0] / s[
        :, None
    ]


def _fourier(rng, M, K, N):
    s = 1 / np.arange(1.0, K + 1) ** 2
    return rng.standard_normal((M, K)) * s, rng.standard_normal((K, N)) / s[:, None]


def _same(rng, M, K, N):
    s = _decades(4)(rng, K)
    return rng.standard_normal((M, K)) * s, rng.standard_normal((K, N)) * s[:, None]


def _other_rows(rng, M, K, N):
    """Rows and columns in units too."""
    a, b = _against(_decades(4))(rng, M, K, N)
    return a * _decades(6)(rng, M)[:, None], b * _decades(6)(rng, N)


def _few_rows(rng, M, K, N):
    """A hundredth of the rows is large, and alone in its units."""
    s, few = _decades(4)(rng, K), np.arange(M) % 100 == 50
    a, b = rng.standard_normal((M, K)), rng.standard_normal((K, N)) / s[:, None]
    a[few] *= 1e4 * s
    return a, b


def _few_columns(rng, M, K, N):
    a, b = _few_rows(rng, N, K, M)
    return b.T, a.T


UNITS = {
    **{f"{x} decade{'s' * (x > 1)}": _against(_decades(x)) for x in (1, 2, 3, 6, 9)},
    "a few columns": _against(lambda rng, K: np.where(np.arange(K) % 100 == 3, 1e6, 1.0)),
    "with a mean": _against(_decades(6), mean=3.0),
    "one-hot beside floats": _one_hot,
    "a rare feature": _rare,
    "prices": _prices,
    "Vandermonde": _vandermonde,
    "polynomial features": _polynomials,
    "whitened": _whitened,
    "Fourier coefficients": _fourier,
    "rows, columns too": _other_rows,
    "a few rows": _few_rows,
    "a few columns of B": _few_columns,
}
EVEN = {"no units": _against(_decades(0)), "the same in A and B": _same}
KINDS = {**EVEN, **UNITS}


def drawn(kind, dtype, shape, seed=1):
    """Return A and B of a kind of data, for a product of M x K x N."""
    rng = np.random.default_rng(seed)
    operands = KINDS[kind](rng, *shape)
    if np.dtype(dtype).kind == "c":
        operands = [x * np.exp(1j * rng.uniform(0, 7, x.shape)) for x in operands]
    return tuple(x.astype(dtype) for x in operands)


def size(x):
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.abs(x) ** 2)))


def unit(a, b, e):
    """Return the larger of np.matmul's RMS error and that of rounding C; e: the exact product."""
    return max(size(np.matmul(a, b) - e), np.finfo(a.dtype).eps / 2 * size(e))


def main():
    """Run the study."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--shape", default="2000,1500,1200")
    parser.add_argument("--dtypes", default="float32,float64,complex64")
    chosen = parser.parse_args()
    shape = tuple(map(int, chosen.shape.split(",")))
    for dtype in chosen.dtypes.split(","):
        print(f"\n{dtype} {shape}: RMS errors over np.matmul's")
        print(f"{'':24}{'by name':>12}{'auto':>8}{'packed':>8}  scheme")
        for kind in KINDS:
            a, b = drawn(kind, dtype, shape)
            wide = np.result_type(dtype, np.longdouble if dtype == "float64" else np.float64)
            some = slice(None, None, 40 if dtype == "float64" else 1)  # long doubles take long
            e, plan = a[some].astype(wide) @ b.astype(wide), falcon.plan(a, b)
            named = plan.method.stored or "classical"
            found = falcon.gemm(a, b, scheme=named), falcon.gemm(a, b)
            found += (falcon.gemm(a, falcon.pack(b, rows=len(a))),)
            row = [size(x[some] - e) / unit(a[some], b, e) for x in found]
            print(f"{kind:24}{row[0]:12.1f}{row[1]:8.2f}{row[2]:8.2f}  {plan.label}", flush=True)


if __name__ == "__main__":
    main()
