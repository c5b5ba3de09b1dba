"""How much error a scheme may add: second moment, growth on entries of one sign, e_max.

Formulas follow Bini and Lotti (1980), Higham's "Accuracy and Stability of Numerical Algorithms",
chapter 23, and Ballard, Benson, Druinsky, Lipshitz and Schwartz (arXiv:1507.00687).
"""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt

import numpy as np


def phi(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Fraction:
    """Second moment ``sum_r |U_r|^2 |V_r|^2 |W_r|^2`` (squared 2-norms), exactly."""
    u, v, w = map(_squares, (U, V, W))
    return Fraction(sum(a * b * c for a, b, c in zip(u, v, w, strict=True)))


def growth_factor(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> float:
    """Sum of products of 2-norms."""
    u, v, w = map(_squares, (U, V, W))
    return float(sum(sqrt(a * b * c) for a, b, c in zip(u, v, w, strict=True)))


def one_sign_growth(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> float:
    """Error on entries of one sign, relative to classical multiplication without blocks.

    On such operands a sum of A or B is ``sum U_r`` or ``sum V_r`` times an entry. The errors of
    block products are independent, and each is ``sqrt(k)`` times smaller relative to its product,
    which is ``1/k`` of the result.
    """
    u, v, w = (x.reshape(len(x), -1).astype(np.float64) for x in (U, V, W))
    weights = (u.sum(axis=1) * v.sum(axis=1)) ** 2
    return sqrt(float((w**2 * weights[:, None]).sum(axis=0).max()) / U.shape[2] ** 3)


def sum_growth(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> float:
    """Bound the integers that a scheme forms of integers: how many times the largest sum.

    That is K times the largest elements of A and of B. Its shared sums are parts of others. Halves
    make multiples of a power of two, which is then the unit.
    """
    factors = [x.astype(np.float64).reshape(len(x), -1) for x in (U, V, W)]
    u, v, w = map(abs, factors)
    products = u.sum(axis=1) * v.sum(axis=1)
    units = prod(max(c.as_integer_ratio()[1] for c in {*x.ravel().tolist()}) for x in factors)
    return float(max(products.max(), (products @ w).max())) * units / U.shape[2]


def e_max(U: np.ndarray, V: np.ndarray, W: np.ndarray) -> Fraction:
    """Largest ``sum_r |W[r,c]| |U_r|_1 |V_r|_1`` over the outputs c: factor of the error bound."""
    u, v = (abs(x).reshape(len(x), -1).sum(axis=1).tolist() for x in (U, V))
    outputs = abs(W).reshape(len(W), -1).T.tolist()
    weights = [a * b for a, b in zip(u, v, strict=True)]
    return Fraction(
        max(sum(c * x for c, x in zip(row, weights, strict=True) if c) for row in outputs)
    )


def _squares(x: np.ndarray) -> list:
    """Per r, the sum of x_r**2, as exact Python numbers."""
    return (x**2).reshape(len(x), -1).sum(axis=1).tolist()
