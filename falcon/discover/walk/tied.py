"""Starts, lifting and conversion for schemes for X X^T, as terms of the C walks.

A term (u, v, w) is a product of two sums of the m x k entries of X, the second one transposed, and
where it goes among the m x m entries of C. It is tied where u and v are equal up to sign: a
symmetric product. `Walker` does not know what its terms multiply, so that any flip keeps it.
"""

from __future__ import annotations

import random

import numpy as np

from falcon.schemes import SymmetricScheme, brent, symmetric

from . import lifting, masks


def terms_of(scheme: SymmetricScheme) -> np.ndarray:
    """Masks (R, 3, 2) of a ternary scheme."""
    return masks.from_arrays(scheme.U, scheme.V, scheme.W)


def start(m: int, k: int) -> np.ndarray:
    """Masks of the classical algorithm: all that lies on the diagonal of C is tied."""
    return terms_of(symmetric.classical(m, k))


def scheme_of(terms: np.ndarray, m: int, k: int, source: str) -> SymmetricScheme:
    """Build the scheme of ternary terms, and with it the proof; its name says its format."""
    u, v, w = (x.astype(np.int64) for x in _arrays(terms, m, k))
    found = SymmetricScheme(u, v, w, source=source)
    name = f"{m}x{k}:{found.n_general}+{found.n_symmetric}"
    return found.renamed(name, source)


def lift(terms: np.ndarray, m: int, k: int, rng: random.Random) -> np.ndarray:
    """Choose signs for terms modulo 2 (`lifting.lift_tied`); empty where none were found."""
    positions = {
        (i * k + l, j * k + l, i * m + j) for i in range(m) for j in range(i, m) for l in range(k)
    }
    return lifting.lift_tied(terms, positions, rng, lambda lifted: is_exact(lifted, m, k))


def is_exact(terms: np.ndarray, m: int, k: int) -> bool:
    """Whether ternary terms compute the upper triangle of X X^T over the integers."""
    u, v, w = (x.astype(np.int64) for x in _arrays(terms, m, k))
    return brent.first_symmetric_violation(u, v, w) is None


def _arrays(terms: np.ndarray, m: int, k: int) -> list[np.ndarray]:
    shapes = ((m, k), (m, k), (m, m))
    return [masks.unpack(terms[:, mode], shape) for mode, shape in enumerate(shapes)]
