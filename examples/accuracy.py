"""Print the errors of LCMAs that docs/accuracy.md shows; with a path, draw the picture too.

python examples/accuracy.py [docs/accuracy.png]

Errors are the largest of all entries, in units of u sqrt(K) norm(a_i) norm(b_j), unless another
unit is named. "by name" runs a scheme that is requested by name, without scaling; "scaled" runs it
as "auto" does. The picture needs matplotlib and takes a minute; without it sizes are smaller.
"""

import sys
from dataclasses import replace

import numpy as np

import falcon
from falcon._core.scaling import Lines

PICTURE = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].endswith(".png") else None
SIZE = 900 if PICTURE else 300
SCHEMES = ("strassen", "winograd", "3x6x4:54", "strassen@strassen", "strassen@3x6x4:54")
RANDOM = np.random.default_rng(0)


def normal(rows, columns):
    """Return normal entries."""
    return RANDOM.standard_normal((rows, columns))


def plans(a, b, name):
    """Return the plan of a scheme that is requested by name, and the plan as "auto" runs it."""
    by_name = falcon.plan(a, b, scheme=name)
    return by_name, replace(by_name, guarded=True)


def error(c, a, b):
    """Return the largest error, and the root mean square, in units of u sqrt(K) norms."""
    a, b = a.astype(float), b.astype(float)
    norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    errors = (c - a @ b) / norms / (np.finfo(c.dtype).eps / 2 * np.sqrt(a.shape[1]))
    return np.abs(errors).max(), np.sqrt(np.square(errors).mean())


def correlation_errors(factors=(1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)):
    """Yield, per factor of one column of X, the largest errors of correlations from X' X."""
    x = normal(2 * SIZE, SIZE // 2 * 2).astype("f4")
    for factor in factors:
        scaled = x.copy()
        scaled[:, 77] *= np.float32(factor)
        exact = correlations(scaled.astype(float))
        found = [correlations(scaled, np.matmul)]
        found += [correlations(scaled, plan) for plan in plans(scaled.T, scaled, "3x6x4:54")]
        yield factor, *(np.abs(y - exact).max() for y in found)


def correlations(x, multiply=np.matmul):
    """Return the correlations of the columns of x, assuming that their means are zero."""
    product = multiply(x.T, x).astype(float)
    norms = np.sqrt(np.diag(product))
    return product / np.outer(norms, norms)


def hilbert(n):
    """Return the Hilbert matrix."""
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1)


def matrices():
    """Return operands that are numerically hard, by kind."""
    n, lines = SIZE, np.logspace(-6, 6, SIZE)
    a, b = normal(n, n), normal(n, n)
    shuffled = RANDOM.permutation(lines)
    channels = np.where(np.arange(n) % (n // 6) == 3, 1000, 1)
    giants = np.where(RANDOM.random((n, n)) < 1e-4, 1e6, 1)
    return {
        "normal": (a, b),
        "of one sign": (abs(a), abs(b)),
        "graded rows, columns": (a * lines[:, None], b * lines),
        "Hilbert": (hilbert(n), hilbert(n)),
        "badly scaled, all ways": (a * shuffled[:, None] * lines, b * shuffled[::-1]),
        "a few giant entries": (a * giants, b),
        "activations: 6 channels x 1000": (a * channels, b),
        "lines of K, against each other": (a * lines, b * lines[:, None]),
    }


def matrix_errors():
    """Yield, per kind of matrices, errors of the classical algorithm, by name, and scaled."""
    for kind, (a, b) in matrices().items():
        a, b = a.astype("f4"), b.astype("f4")
        by_scheme = {
            name: tuple(error(plan(a, b), a, b)[0] for plan in plans(a, b, name))
            for name in SCHEMES
        }
        yield kind, error(falcon.gemm(a, b, scheme="classical"), a, b)[0], by_scheme


def growth_errors():
    """Yield, per scheme of the catalogue, its predicted and its measured growth on normal data.

    Both are relative to the classical algorithm on blocks of the same length.
    """
    n = 360
    a, b = normal(n, n).astype("f4"), normal(n, n).astype("f4")
    exact = a.astype(float) @ b.astype(float)
    by_blocks = {}
    for name in falcon.schemes.names() if PICTURE else SCHEMES[:2]:
        scheme = falcon.schemes.get(name)
        if scheme.k not in by_blocks:
            total = np.zeros((n, n), "f4")
            for part in np.array_split(np.arange(n), scheme.k):
                partial = np.zeros((n, n), "f4")
                for l in part:
                    partial += a[:, l, None] * b[l]
                total += partial
            by_blocks[scheme.k] = np.linalg.norm(total - exact)
        measured = np.linalg.norm(falcon.gemm(a, b, scheme=scheme) - exact)
        yield scheme.rms_growth, measured / by_blocks[scheme.k]


def spread_errors(times=40 if PICTURE else 2):
    """Yield s_A s_B and the largest error over the growth, unscaled, of entries of one sign."""
    for _ in range(times):
        m, k, n = RANDOM.integers(256, 500, 3)
        rows, columns = (np.where(RANDOM.random(x) < 0.5, 1, 2 ** RANDOM.random()) for x in (m, n))
        a = (RANDOM.random((m, k)) * rows[:, None]).astype("f4")
        b = (RANDOM.random((k, n)) * columns).astype("f4")
        squares = [(x.astype(float) ** 2).sum(axis) for x, axis in ((a, 1), (b, 0))]
        for name in SCHEMES:
            plan = falcon.plan(a, b, scheme=name)
            blocks = (plan.scheme.m, m), (plan.scheme.n, n)
            s = np.prod([Lines(x, *y).spread for x, y in zip(squares, blocks, strict=True)])
            yield s, error(plan(a, b), a, b)[0] / plan.growth


found = {
    "correlations": list(correlation_errors()),
    "matrices": list(matrix_errors()),
    "growth": list(growth_errors()),
    "spread": list(spread_errors()),
}
print("largest error of a correlation, one float32 column of X times f: NumPy, by name, scaled")
for factor, *errors in found["correlations"]:
    print(f"  f = {factor:<9g}", "  ".join(f"{x:8.1e}" for x in errors))
print("largest error: classical; by name -> scaled,", ", ".join(SCHEMES))
for kind, classical, by_scheme in found["matrices"]:
    pairs = (f"{x:.2g} -> {y:.2g}" for x, y in by_scheme.values())
    print(f"  {kind:<31} {classical:.2g};", ", ".join(pairs))
ratios = [y / x for x, y in found["growth"]]
print(f"measured over predicted growth: {min(ratios):.2f} to {max(ratios):.2f}")
for most in (1.3, 2, 3, 4):
    worst = max((y for x, y in found["spread"] if x <= most), default=0)
    print(f"error over growth, entries of one sign, s_A s_B up to {most}: {worst:.2g}")


def draw(path):
    """Draw the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(12, 9.5), layout="constrained")
    one, two, three, four = axes.flat
    factors, *curves = zip(*found["correlations"], strict=True)
    labels = ("NumPy", "3x6x4:54 by name, not scaled", "3x6x4:54 scaled")
    for curve, label, style in zip(curves, labels, ("o-", "s--", "^-"), strict=True):
        one.loglog(factors, curve, style, label=label)
    one.set(title="Correlations from X'X, one column times f", xlabel="f", ylabel="largest error")
    one.axhline(1, color="0.6", lw=0.8)
    one.legend()

    kinds = [kind for kind, *_ in found["matrices"]]
    places = np.arange(len(kinds))
    # Divided by growth, so that the promise is the same line for all schemes.
    over = {name: falcon.schemes.get(name).rms_growth for name in SCHEMES}
    for place, (_, classical, by_scheme) in zip(places, found["matrices"], strict=True):
        first = place == 0
        two.plot(classical, place, "kD", ms=6, label="classical" if first else None)
        for name, (by_name, scaled) in by_scheme.items():
            x, y = by_name / over[name], scaled / over[name]
            two.plot(x, place - 0.2, "s", c="C1", ms=5, label="by name" if first else None)
            two.plot(y, place + 0.2, "^", c="C2", ms=5, label="scaled" if first else None)
            first = False
    two.axvline(1.5, color="C3", lw=1, label="the promise, 1.5")
    two.set(xscale="log", yticks=places, title="Largest error over growth, five schemes")
    two.set_yticklabels(kinds)
    two.set_xlabel("in units of u sqrt(K) norm(a_i) norm(b_j)")
    two.invert_yaxis()
    two.legend(loc="lower right", fontsize=8)

    growth, measured = zip(*found["growth"], strict=True)
    three.plot(growth, measured, ".", c="C0")
    three.plot([1, max(growth)], [1, max(growth)], c="0.5", lw=1, label="as predicted")
    three.set(title="Every scheme of the catalogue, normal data", xlabel="predicted growth")
    three.set_ylabel("measured RMS error over classical")
    three.legend()

    uneven, errors = zip(*found["spread"], strict=True)
    four.plot(uneven, errors, ".", c="C0")
    four.axvline(1.2, color="0.5", lw=1, label="scaled from here on, if that helps")
    four.axhline(1.5, color="C3", lw=1, label="the promise")
    four.set(title="Unscaled, entries of one sign", xlabel="s_A s_B", ylabel="error over growth")
    four.set_ylim(0, 2)
    four.legend()
    figure.savefig(path, dpi=110)


if PICTURE:
    draw(PICTURE)
