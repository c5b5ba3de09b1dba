"""Products whose arithmetic is known, simulated: what `falcon.grade` must name.

``KNOWN`` maps a label to (function, type, name of the grade, its letter).
"""

from functools import partial

import numpy as np

CLASSICAL = np.matmul


def rounded(x, bits):
    """Round to so many significand bits, to nearest."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits).astype(x.dtype)


def where_nonzero(product):
    """Multiply only rows and columns that are not zero: these products are slow."""

    def multiply(a, b):
        rows, columns = a.any(axis=1), b.any(axis=0)
        steps = a.any(axis=0) | b.any(axis=1)
        c = np.zeros((len(a), b.shape[1]), a.dtype)
        with np.errstate(all="ignore"):
            c[np.ix_(rows, columns)] = product(a[rows][:, steps], b[steps][:, columns])
        return c

    return multiply


def low_operands(bits):
    return lambda a, b: rounded(a, bits) @ rounded(b, bits)


@where_nonzero
def in_float16(a, b):
    c = np.zeros((len(a), b.shape[1]), np.float16)
    for x, y in zip(a.T.astype(np.float16), b.astype(np.float16), strict=True):
        c += np.outer(x, y)
    return c


def truncating(terms):
    """Sum as tensor cores do: terms and sum aligned to the largest, cut to 24 bits, then added."""

    @where_nonzero
    def multiply(a, b):
        a, b = a.astype(float), b.astype(float)
        c = np.zeros((len(a), b.shape[1]))
        for start in range(0, a.shape[1], terms):
            some = slice(start, start + terms)
            each = np.concatenate([c[None], a.T[some, :, None] * b[some, None, :]])
            unit = np.ldexp(1.0, np.frexp(np.abs(each).max(axis=0))[1] - 24)
            c = np.trunc(each / unit).sum(axis=0)
            more = np.maximum(0, np.frexp(c)[1] - 24)  # bits
            c = np.ldexp(np.trunc(np.ldexp(c, -more)), more) * unit
        return c

    return multiply


def by_parts(bits, count):
    """Multiply parts of `bits` bits, those products that matter, the smallest first."""

    def parts(x):
        for _ in range(count):
            part = rounded(x, bits)
            yield part
            x = x - part

    def multiply(a, b):
        with np.errstate(all="ignore"):
            left, right = tuple(parts(a)), tuple(parts(b))
            pairs = [(i, j) for i in range(count) for j in range(count - i)]
            return sum(left[i] @ right[j] for i, j in sorted(pairs, key=sum, reverse=True))

    return multiply


def exponents(x, axis):
    """Return those that make the largest number of each line less than 1."""
    return -np.frexp(np.abs(x).max(axis, keepdims=True))[1]


def by_float16_parts(a, b):
    """Scale rows of A and columns of B, as float16 has few exponents."""
    rows, columns = exponents(a, 1), exponents(b, 0)
    c = by_parts(11, 2)(np.ldexp(a, rows), np.ldexp(b, columns))
    return np.ldexp(c, -rows - columns)


def strassen(levels, a, b):
    if levels == 0:
        return a @ b
    m, k, n = len(a) // 2, len(b) // 2, b.shape[1] // 2
    if 2 * m != len(a) or 2 * k != len(b) or 2 * n != b.shape[1] or not m * k * n:
        return a @ b
    times = partial(strassen, levels - 1)
    (p, q), (r, s) = (np.hsplit(x, [k]) for x in np.vsplit(a, [m]))
    (t, u), (v, w) = (np.hsplit(x, [n]) for x in np.vsplit(b, [k]))
    with np.errstate(all="ignore"):
        x1, x2, x3, x4 = times(p + s, t + w), times(r + s, t), times(p, u - w), times(s, v - t)
        x5, x6, x7 = times(p + q, w), times(r - p, t + u), times(q - s, v + w)
        return np.block([[x1 + x4 - x5 + x7, x3 + x5], [x2 + x4, x1 - x2 + x3 + x6]])


def ozaki(slices, a, b):
    """Multiply int8 slices of 7 bits, fixed point relative to the largest of a row or column."""

    def cut(x):
        for _ in range(slices):
            x = x * 128
            yield np.trunc(x)
            x = x - np.trunc(x)

    with np.errstate(all="ignore"):
        rows, columns = exponents(a, 1), exponents(b, 0)
        left, right = tuple(cut(np.ldexp(a, rows))), tuple(cut(np.ldexp(b, columns)))
        pairs = [(i, j) for i in range(slices) for j in range(slices - i)]
        c = sum((left[i] @ right[j]) * 128.0 ** (-i - j - 2)
                for i, j in sorted(pairs, key=sum, reverse=True))  # fmt: skip
        return np.ldexp(c, -rows - columns)


def flushing(a, b):
    least = np.finfo(a.dtype).tiny
    a, b = (np.where(np.abs(x) < least, 0, x).astype(a.dtype) for x in (a, b))
    c = a @ b
    return np.where(np.abs(c) < least, 0, c).astype(a.dtype)


KNOWN = {
    "native": (CLASSICAL, "float32", "IEEE float32", "A"),
    "TF32": (low_operands(11), "float32", "TF32 operands", "C"),
    "bfloat16": (low_operands(8), "float32", "bfloat16 operands", "C"),
    "float16 sums": (in_float16, "float32", "accumulator of 11 bits", "C"),
    **{f"truncated, {n}": (truncating(n), "float32", f"accumulator truncates after {n} terms", "C")
       for n in (4, 8, 16)},
    "bf16x3": (by_parts(8, 2), "float32", "bf16x3", "C"),
    "bf16x6": (by_parts(8, 3), "float32", "bf16x6", "B"),
    "fp16x3": (by_float16_parts, "float32", "fp16x3", "C"),
    "Strassen, 1": (partial(strassen, 1), "float32", "Strassen-like, 1 level", "B"),
    "Strassen, 2": (partial(strassen, 2), "float32", "Strassen-like, 2 levels", "B"),
    "Strassen, 3": (partial(strassen, 3), "float32", "Strassen-like, 3 levels", "B"),
    "Ozaki, 6": (partial(ozaki, 6), "float64", "Ozaki, 6 slices", "C"),
    "Ozaki, 8": (partial(ozaki, 8), "float64", "Ozaki, 8 slices", "B"),
    "flushed": (flushing, "float32", "subnormal numbers are flushed", "B"),
    "int32": (CLASSICAL, "int32", "int32 that wraps", "A"),
}  # fmt: skip
