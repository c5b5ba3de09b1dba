"""Schemes as bit masks, the form of the C walks, and back.

A factor of at most 64 entries is a pair of 64-bit masks: entry ``row * columns + column`` is +1
where the first has that bit, -1 where the second has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from falcon.schemes import Scheme

Format = tuple[int, int, int]
# ``start(rng, mod2)`` returns the masks of a scheme at which a search begins.
Start = Callable[[random.Random, bool], np.ndarray]


def ascending(dims: Format) -> Format:
    """The format with its dimensions in ascending order."""
    a, b, c = sorted(dims)
    return a, b, c


def resized(dims: Format, axis: int, size: int) -> Format:
    """The format with another size of one dimension."""
    sizes = list(dims)
    sizes[axis] = size
    return sizes[0], sizes[1], sizes[2]


def shapes(dims: Format) -> tuple[tuple[int, int], ...]:
    """Shapes of the factors u, v, w of a format (m, k, n)."""
    m, k, n = dims
    return (m, k), (k, n), (m, n)


def pack(factor: np.ndarray) -> np.ndarray:
    """Masks of ternary matrices: (R, rows, columns) integers to (R, 2) words."""
    flat = np.asarray(factor).reshape(len(factor), -1)
    if flat.size and not np.isin(flat, (-1, 0, 1)).all():
        raise ValueError("a coefficient is not -1, 0 or 1")
    if flat.shape[1] > 64:
        raise ValueError(f"a factor has {flat.shape[1]} entries; at most 64 fit a mask")
    weights = np.left_shift(np.uint64(1), np.arange(flat.shape[1], dtype=np.uint64))
    masks = [np.where(flat == sign, weights, np.uint64(0)).sum(1) for sign in (1, -1)]
    return np.stack(masks, axis=1).astype(np.uint64)


def unpack(masks: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Ternary matrices (R, *shape) of masks (R, 2), as int8."""
    places = np.arange(shape[0] * shape[1], dtype=np.uint64)
    bits = (masks[:, :, None] >> places & np.uint64(1)).astype(np.int8)
    return (bits[:, 0] - bits[:, 1]).reshape(len(masks), *shape)


def terms_of(scheme: Scheme) -> np.ndarray:
    """Masks of a ternary scheme, shape (R, 3, 2).

    Raises
    ------
    ValueError
        A coefficient is not -1, 0 or 1, or a factor has more than 64 entries.
    """
    return np.stack([pack(getattr(scheme, factor)) for factor in "UVW"], axis=1)


def arrays_of(terms: np.ndarray, dims: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, V, W of masks (R, 3, 2), as int8."""
    u, v, w = (unpack(terms[:, mode], shape) for mode, shape in enumerate(shapes(dims)))
    return u, v, w


def from_arrays(u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Masks (R, 3, 2) of ternary U, V, W."""
    return np.stack([pack(u), pack(v), pack(w)], axis=1)


def scheme_of(terms: np.ndarray, dims: Format, name: str, source: str) -> Scheme:
    """Build the scheme, and with it the proof by the Brent equations."""
    u, v, w = (x.astype(np.int64) for x in arrays_of(terms, dims))
    return Scheme(u, v, w, name, source=source)


def weights(terms: np.ndarray) -> np.ndarray:
    """Non-zeros per term and factor, shape (R, 3)."""
    counts = [x.bit_count() for x in terms.ravel().tolist()]
    return np.array(counts, np.int64).reshape(terms.shape).sum(2)


def nnz(terms: np.ndarray) -> int:
    """Non-zero coefficients of a scheme in masks."""
    return int(weights(terms).sum())


def phi(terms: np.ndarray) -> int:
    """Second moment of a scheme in masks; see `falcon.schemes.metrics.phi`."""
    return int(weights(terms).prod(1).sum())
