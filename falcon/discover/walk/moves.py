"""Moves between formats: project, merge, extend; and random changes of basis.

All of them map valid schemes to valid schemes; coefficients may leave {-1, 0, 1}, in which case a
move returns None. Schemes are triples (U, V, W) of int arrays (R, m, k), (R, k, n), (R, m, n).
Source of the moves: flip graphs between formats as in "Fast matrix multiplication via ternary meta
flip graphs" (A. I. Perminov, 2025) and Arai, Ichikawa and Hukushima (ISSAC 2024).
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from . import masks
from .masks import Format

Factors = tuple[np.ndarray, np.ndarray, np.ndarray]
# Where a dimension m, k, n appears: factor and axis on the covariant side (its vectors are read by
# U or V), then factor and axis on the other side.
_PLACES = ((0, 0, 2, 0), (0, 1, 1, 0), (1, 1, 2, 1))


def classical(dims: Format) -> np.ndarray:
    """Masks of the classical algorithm of a format."""
    m, k, n = dims
    i, l, j = (x.ravel().astype(np.uint64) for x in np.indices(dims))
    bit = np.left_shift
    one = np.uint64(1)
    terms = np.zeros((m * k * n, 3, 2), np.uint64)
    for mode, place in enumerate((i * k + l, l * n + j, i * n + j)):
        terms[:, mode, 0] = bit(one, place.astype(np.uint64))
    return terms


def rotate(factors: Factors) -> Factors:
    """<m,k,n> to <k,n,m>."""
    u, v, w = factors
    return v, w.transpose(0, 2, 1), u.transpose(0, 2, 1)


def transpose(factors: Factors) -> Factors:
    """<m,k,n> to <n,k,m>."""
    u, v, w = factors
    return v.transpose(0, 2, 1), u.transpose(0, 2, 1), w.transpose(0, 2, 1)


def dims_of(factors: Factors) -> Format:
    """The format of a scheme in arrays."""
    return factors[0].shape[1], factors[0].shape[2], factors[1].shape[2]


def reshaped(factors: Factors, dims: Format, rng: random.Random) -> Factors:
    """A random one of the images of a scheme that have the format `dims`."""
    found = images(factors, dims)
    if not found:
        raise ValueError(f"no image of {dims_of(factors)} has the format {tuple(dims)}")
    return rng.choice(found)


def images(factors: Factors, dims: Format) -> list[Factors]:
    """All images of a scheme under rotations and transposition that have the format `dims`."""
    found = []
    for start in (factors, transpose(factors)):
        for _ in range(3):
            if dims_of(start) == tuple(dims):
                found.append(start)
            start = rotate(start)
    return found


def transformed(factors: Factors, axis: int, matrix: np.ndarray, inverse: np.ndarray) -> Factors:
    """Change the basis of one dimension: `matrix` on the reading side, `inverse` on the other."""
    out = [np.asarray(x, np.int64) for x in factors]
    first, axis_1, second, axis_2 = _PLACES[axis]
    # Reading side: x -> matrix^T x; other side: x -> inverse x (for k and V as for C).
    out[first] = np.moveaxis(np.tensordot(matrix.T, out[first], (1, 1 + axis_1)), 0, 1 + axis_1)
    out[second] = np.moveaxis(np.tensordot(inverse, out[second], (1, 1 + axis_2)), 0, 1 + axis_2)
    return out[0], out[1], out[2]


def shuffled(factors: Factors, rng: random.Random) -> Factors:
    """Apply a random signed permutation to each dimension: never leaves {-1, 0, 1}."""
    for axis, size in enumerate(dims_of(factors)):
        order = rng.sample(range(size), size)
        matrix = np.zeros((size, size), np.int64)
        matrix[range(size), order] = [rng.choice((-1, 1)) for _ in range(size)]
        factors = transformed(factors, axis, matrix, matrix.T)
    return factors


def merged(first: Factors, second: Factors, axis: int) -> np.ndarray:
    """Masks of the direct sum along a dimension: ranks add up."""
    blocks = []
    for mode, (x, y) in enumerate(zip(first, second, strict=True)):
        widths = [[(0, 0), (0, 0), (0, 0)] for _ in range(2)]
        for factor, where in (_PLACES[axis][:2], _PLACES[axis][2:]):
            if factor == mode:
                widths[0][1 + where] = (0, y.shape[1 + where])
                widths[1][1 + where] = (x.shape[1 + where], 0)
        blocks.append(np.concatenate([np.pad(x, widths[0]), np.pad(y, widths[1])]))
    return masks.from_arrays(*blocks)


def projected(factors: Factors, axis: int, rng: random.Random, *, mod2: bool) -> np.ndarray | None:
    """Masks of a scheme with one line less in a dimension, in a direction that removes many terms.

    Restricts the reading side to the complement of a direction d and drops the component along f
    on the other, ``d . f = 1``. Terms whose reading factor is ``d (x) y`` or whose other factor is
    ``f (x) y`` vanish; d and f are drawn from those that occur most often, unit vectors included.
    None if every such projection leaves {-1, 0, 1}.
    """
    size = dims_of(factors)[axis]
    first, axis_1, second, axis_2 = _PLACES[axis]
    reading = _directions(np.moveaxis(factors[first], 1 + axis_1, 1))
    other = _directions(np.moveaxis(factors[second], 1 + axis_2, 1))
    pairs = []
    for d, count_d in reading.items():
        for f, count_f in other.items():
            dot = sum(x * y for x, y in zip(d, f, strict=True))
            if abs(dot) == 1 or (mod2 and dot % 2):
                pairs.append((count_d + count_f + 3 * rng.random(), d, f, dot))
    pairs.sort(reverse=True)
    for _, d, f, dot in pairs[:6]:
        pivots = [x for x in range(size) if d[x] in (1, -1)]
        rng.shuffle(pivots)
        for pivot in pivots:
            keep = [x for x in range(size) if x != pivot]
            # Columns of `embed` span the complement of d; rows of `drop` annihilate f.
            embed = np.eye(size, dtype=np.int64)[:, keep]
            embed[pivot] = [-d[x] * d[pivot] for x in keep]
            sign = dot if abs(dot) == 1 else 1
            drop = (np.eye(size, dtype=np.int64) - sign * np.outer(f, d))[keep]
            out = transformed(factors, axis, embed, drop)
            if mod2:
                out = out[0] % 2, out[1] % 2, out[2] % 2
            alive = np.ones(len(out[0]), bool)
            for x in out:
                alive &= x.any(axis=(1, 2))
            if all(np.abs(x).max() <= 1 for x in out):
                return masks.from_arrays(*(x[alive] for x in out))
    return None


def _directions(matrices: np.ndarray) -> Counter[tuple[int, ...]]:
    """How many of the matrices are ``d (x) y``, per direction d; unit vectors are listed too."""
    size = matrices.shape[1]
    found: Counter[tuple[int, ...]] = Counter()
    for x in range(size):
        found[tuple(int(x == y) for y in range(size))] = 0
    for matrix in matrices:
        columns = [tuple(int(x) for x in column) for column in matrix.T if column.any()]
        lead = columns[0] if columns else None
        if lead and all(c == lead or c == tuple(-x for x in lead) for c in columns):
            sign = next(x for x in lead if x)
            found[tuple(sign * x for x in lead)] += 1
    return found
