"""Inputs that tell a classical product from others, graded: ``python studies/graded.py``.

    --size N           square matrices (1536), large enough that "auto" takes an LCMA
    --dtype D ...      float32 float64
    --only TEXT        inputs whose name contains it

NumPy, MKL, PyTorch and falcon ("auto", max_growth=1, strassen by name), each in a process of its
own; those that are not installed are left out. It prints Markdown: what differs from a classical
product, and the largest error in units of u sqrt(K) norm(a_i) norm(b_j): that of a classical
product is below 1, "auto" promises 1.5 times its growth. Zeros, NaN and Inf are looked for
everywhere; some 40 rows are compared with a product in higher precision.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from common import process

ROWS = 32  # that are compared, chosen at random
ROUNDS = 5  # pairs of timings
# Side of a comparison: key of falcon.bench's libraries, and falcon's settings.
SIDES = {
    "NumPy": ("numpy", {}),
    "MKL": ("mkl", {}),
    "PyTorch": ("torch", {}),
    "falcon": ("falcon", {}),
    "max_growth=1": ("falcon", {"max_growth": 1.0}),
    "strassen": ("falcon", {"scheme": "strassen"}),
}

Pair = tuple[np.ndarray, np.ndarray]
Maker = Callable[[np.random.Generator, int, np.dtype], Pair]


@dataclass(frozen=True)
class Input:
    """Operands, and what a classical product gives for them."""

    name: str
    make: Maker
    exact: bool = False  # every entry is one product, which is not rounded
    timed: bool = False  # also as a multiple of the time of normal numbers


def normal(random, size, dtype):
    """Normal entries, as operands of the other inputs too."""
    return tuple(random.standard_normal((size, size)).astype(dtype) for _ in "ab")


def zeros(random, size, dtype):
    a, b = normal(random, size, dtype)
    a[random.random(size) < 0.2] = 0
    b[:, random.random(size) < 0.2] = 0
    return a, b


def huge_row(random, size, dtype):
    a, b = normal(random, size, dtype)
    a[size // 3] *= dtype.type(2.0**30)
    return a, b


def huge_column(random, size, dtype):
    a, b = normal(random, size, dtype)
    b[:, size // 3] *= dtype.type(2.0**30)
    return a, b


def scaled_rows(random, size, dtype):
    """Rows from 2^-1000 to 2^1000 in float64, to 2^100 in float32."""
    a, b = normal(random, size, dtype)
    most = 125 * dtype.itemsize if dtype.itemsize == 8 else 100
    powers = np.rint(np.linspace(-most, most, size))
    return a * np.exp2(random.permutation(powers)).astype(dtype)[:, None], b


def powers(random, size, dtype):
    return np.exp2(random.integers(-20, 21, size)).astype(dtype)


def diagonal(random, size, dtype):
    return np.diag(powers(random, size, dtype)), normal(random, size, dtype)[1]


def permutation(random, size, dtype):
    a, b = diagonal(random, size, dtype)
    return a[random.permutation(size)], b


def whole(random, size, dtype):
    """Entries of which every sum is exact."""
    return tuple(random.integers(-8, 9, (size, size)).astype(dtype) for _ in "ab")


def near_overflow(random, size, dtype):
    """Sums of two entries of A overflow, no entry of C does."""
    a, b = normal(random, size, dtype)
    a = np.copysign(np.finfo(dtype).max * random.uniform(0.6, 1, a.shape), a).astype(dtype)
    return a, (b / dtype.type(16 * size)).astype(dtype)


def nan_in_a(random, size, dtype):
    a, b = normal(random, size, dtype)
    a[size // 3, size // 5] = np.nan
    return a, b


def infinity_in_b(random, size, dtype):
    a, b = normal(random, size, dtype)
    b[size // 5, size // 3] = np.inf
    return a, b


def subnormal(random, size, dtype):
    """A is subnormal, C is not."""
    a, b = normal(random, size, dtype)
    least = np.finfo(dtype).smallest_subnormal
    return (np.rint(a * 2.0**12) * least).astype(dtype), b * dtype.type(2.0**40)


def some_subnormal(random, size, dtype):
    """One entry of A in a thousand is subnormal."""
    a, b = normal(random, size, dtype)
    at = random.random(a.shape) < 1e-3
    a[at] = (np.rint(a[at] * 2.0**12) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    return a, b


INPUTS = [
    Input("normal entries", normal),
    Input("a fifth of A's rows and B's columns are zero", zeros),
    Input("a row of A is 2^30 times larger", huge_row),
    Input("a column of B is 2^30 times larger", huge_column),
    Input("rows of A from 2^-1000 to 2^1000 (float32: 2^100)", scaled_rows),
    Input("A diagonal, of powers of two", diagonal, exact=True),
    Input("A a permutation times powers of two", permutation, exact=True),
    Input("whole numbers", whole, exact=True),
    Input("A near overflow, C finite", near_overflow),
    Input("a NaN in A", nan_in_a),
    Input("an Inf in B", infinity_in_b),
    Input("A subnormal", subnormal, timed=True),
    Input("an entry of A in a thousand is subnormal", some_subnormal, timed=True),
]


# --- grades ---------------------------------------------------------------------------------


def norms(x, axis):
    """Return 2-norms, of which no square overflows, without NaN and Inf."""
    x = np.where(np.isfinite(x), np.abs(x), 0).astype(x.dtype)
    largest = x.max(axis, keepdims=True, initial=0)
    largest[largest == 0] = 1
    return (np.sqrt(np.square(x / largest).sum(axis, keepdims=True)) * largest).ravel()


@dataclass
class Classical:
    """What a classical product of some operands gives."""

    a: np.ndarray
    b: np.ndarray
    rows: np.ndarray  # in which entries are compared
    exact: np.ndarray = field(init=False)  # these rows of the product, in higher precision
    unit: np.ndarray = field(init=False)  # u sqrt(K) norm(a_i) norm(b_j) of these rows
    is_zero: np.ndarray = field(init=False)  # entries that are 0
    spoilt: np.ndarray = field(init=False)  # entries that are NaN or Inf

    def __post_init__(self):
        a, b, kind = self.a, self.b, self.a.dtype
        wide = np.dtype(np.float64 if kind == np.float32 else np.longdouble)
        if np.finfo(wide).eps >= np.finfo(kind).eps:
            raise ValueError(f"no type here is more precise than {kind}; try --dtype float32")
        some, wider = a[self.rows].astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            self.exact = some @ wider
        self.unit = np.outer(norms(some, 1), norms(wider, 0))
        self.unit *= np.finfo(kind).eps / 2 * np.sqrt(a.shape[1])
        # A row or column of other random numbers leaves no entry finite.
        self.spoilt = ~np.isfinite(a).all(axis=1)[:, None] | ~np.isfinite(b).all(axis=0)
        self.is_zero = (~a.any(axis=1)[:, None] | ~b.any(axis=0)) & ~self.spoilt

    def grades(self, c):
        """Return what is wrong in C.

        "zeros": entries that should be 0 and are not; "reach": NaN, Inf or finite entries where a
        classical product has others; "error": the largest one of the other entries, in units;
        "rounded": entries that are not the exact ones.
        """
        some, finite = c[self.rows], np.isfinite(self.exact)
        with np.errstate(all="ignore"):
            errors = np.abs(some - self.exact)
            errors = np.divide(errors, self.unit, out=np.zeros_like(errors), where=self.unit > 0)
        known = finite & np.isfinite(some)
        other = ~finite & (some != self.exact) & ~(np.isnan(some) & np.isnan(self.exact))
        return {
            "zeros": int(np.count_nonzero(c[self.is_zero])),
            "reach": int(np.count_nonzero(np.isfinite(c) == self.spoilt) + np.count_nonzero(other)),
            "error": float(errors[known].max(initial=0)),
            "rounded": int(np.count_nonzero(some[finite] != self.exact[finite])),
        }


def classical(given, size, dtype, seed=0):
    """Return the classical product of an input's operands."""
    random = np.random.default_rng(seed)
    a, b = given.make(random, size, np.dtype(dtype))
    # Those that a scheme adds to the row that is larger, too.
    added = (size // 3 + np.arange(12) * size // 12) % size
    return Classical(a, b, np.union1d(random.integers(size, size=ROWS), added))


def words(given, found):
    """Return a cell of the table."""
    wrong = []
    if found["zeros"]:
        wrong.append(f"{found['zeros']} not 0")
    if found["reach"]:
        wrong.append(f"{found['reach']} not as classically")
    if given.exact:
        wrong += [f"{found['error']:.2g}"] if found["rounded"] else []
        said = ", ".join(wrong) or "exact"
    else:
        said = ", ".join([*wrong, f"{found['error']:.2g}"])
    return f"{said}; {found['times']:.2f} of the time" if "times" in found else said


# --- the study ------------------------------------------------------------------------------


def one_side(library, dtype, size, only):
    """Grade one library: in a process of its own."""
    import falcon
    from falcon._core.dtypes import of
    from falcon._core.timing import Side, interleave
    from falcon.bench.adapters import LIBRARIES

    dtype, size, results = np.dtype(dtype), int(size), {}

    def job(a, b):
        out = np.empty((size, size), dtype)
        return LIBRARIES[library].job(a, b, out), out

    def multiply(a, b):
        made, out = job(a, b)
        made.run()
        made.fetch()
        return out

    try:
        plain = job(*normal(np.random.default_rng(0), size, dtype))[0]
        plain.run()
    except ImportError:
        return None
    for given in INPUTS:
        if only in given.name:
            known = classical(given, size, dtype)
            results[given.name] = known.grades(multiply(known.a, known.b))
            if given.timed:
                made = job(known.a, known.b)[0]
                sides = [Side.of("plain", plain.run, 0.0), Side.of("given", made.run, 0.0)]
                usual, other = interleave(sides, ROUNDS, most=ROUNDS, calls=1)
                results[given.name]["times"] = usual.over(other).median
    about = LIBRARIES[library].describe(of(dtype))
    if library == "falcon":
        about["plan"] = falcon.plan((size, size), (size, size), dtype).label
    return {"about": about, "found": results}


def main():
    """Print a table for each type."""
    from falcon._core.options import as_variables

    parser = argparse.ArgumentParser(description=__doc__, usage="studies/graded.py [options]")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--size", type=int, default=1536)
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    for dtype in given.dtype:
        sides = {}
        for name, (library, options) in SIDES.items():
            call = "_side", library, dtype, given.size, given.only
            found = process(__file__, *call, **as_variables(options))
            if found is None:
                print(f"{name} is not installed", file=sys.stderr)
            else:
                sides[name] = found
        print(f"\n| {dtype}, {given.size} |", " | ".join(sides), "|")
        print("|---" * (1 + len(sides)) + "|")
        for x in INPUTS:
            if given.only in x.name:
                cells = (words(x, side["found"][x.name]) for side in sides.values())
                print(f"| {x.name} |", " | ".join(cells), "|")
        for name, side in sides.items():
            about = side["about"]
            scheme = f", {about['plan']}" if "plan" in about else ""
            print(f"{name}: {about['library']} {about['version']}, {about['kernel']}{scheme}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["_side"]:
        print(json.dumps(one_side(*sys.argv[2:])))
    else:
        main()
