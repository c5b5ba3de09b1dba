"""Kinds of data that products meet, by name, and float32's own sums: for tables of errors."""

import numpy as np


def in_order(a, b):
    """The sums of float32 as cuBLAS forms them, one product after the other."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c += np.outer(a[:, k], b[k])
    return c


def _images(rng, number, size):
    side = int(np.sqrt(size))
    y, x = np.mgrid[:side, :side] / side
    made = []
    for i in range(number):
        shade = np.cos(i) * (x - 0.5) + np.sin(i) * (y - 0.5)
        waves = 30 * np.sin(6 * x + i) * np.cos(5 * y - i)
        noisy = 128 + 90 * shade + waves + 6 * rng.standard_normal((side, side))
        made.append(np.resize(np.clip(np.rint(noisy), 0, 255), size))
    return np.array(made)


def _softmax(rng, shape, sigma):
    e = np.exp(sigma * rng.standard_normal(shape))
    return e / e.sum(1, keepdims=True)


def _returns(rng, number, size):
    market, own = 0.01 * rng.standard_t(4, size), 0.01 * rng.standard_t(3, (number, size))
    return 0.7 * market + own


def _outliers(rng, number, size, mean):
    x = rng.standard_normal((number, size))
    at = rng.random(size) < 0.01
    x[:, at] = 1000 * (mean + x[:, at])
    return x


def _neighbours(rng, number, size, degree):
    return (rng.random((number, size)) < degree / size) * 1.0


# Both operands are made so; the longer axis is K.
_ALIKE = {
    "normal": lambda rng, s: rng.standard_normal(s),
    "uniform": lambda rng, s: rng.random(s),
    "exponential": lambda rng, s: rng.exponential(size=s),
    "lognormal": lambda rng, s: np.exp(rng.standard_normal(s)),
    "ReLU": lambda rng, s: np.maximum(rng.standard_normal(s), 0),
    "sparse": lambda rng, s: rng.random(s) * (rng.random(s) < 0.1),
    "mean 1000": lambda rng, s: 1000 + rng.standard_normal(s),
    "small mean": lambda rng, s: 0.15 + rng.standard_normal(s),
    "whole": lambda rng, s: np.floor(2048 * rng.random(s)),
}
# Rows of A, from (random numbers, rows, K); the second operand is their transpose, or as it says.
_ROWS = {
    "normal, X^T X": (lambda rng, M, K: rng.standard_normal((M, K)), None),
    "orthonormal, Q^T Q": (lambda rng, M, K: np.linalg.qr(rng.standard_normal((K, M)))[0].T, None),
    "near-duplicates": (
        lambda rng, M, K: rng.standard_normal(K) + 0.3 * rng.standard_normal((M, K)),
        None,
    ),
    "log-returns": (_returns, None),
    "images": (_images, None),
    "images x filters": (_images, "normal"),
    "outliers": (lambda rng, M, K: _outliers(rng, M, K, 0.0), None),
    "outliers of one sign x normal": (lambda rng, M, K: _outliers(rng, M, K, 3.0), "normal"),
    "softmax x normal": (lambda rng, M, K: _softmax(rng, (M, K), 1), "normal"),
    "peaked softmax x normal": (lambda rng, M, K: _softmax(rng, (M, K), 4), "normal"),
    "softmax x ReLU": (lambda rng, M, K: _softmax(rng, (M, K), 1), "ReLU"),
    "neighbours x normal": (lambda rng, M, K: _neighbours(rng, M, K, 50), "normal"),
    "neighbours x ReLU": (lambda rng, M, K: _neighbours(rng, M, K, 50), "ReLU"),
    "Vandermonde x normal": (
        lambda rng, M, K: np.vander(np.linspace(-1, 1, M + 2)[1:-1], K, increasing=True),
        "normal",
    ),
    "Vandermonde": (
        lambda rng, M, K: np.vander(np.linspace(0.9, 0.9999, M), K, increasing=True),
        None,
    ),
    "Hilbert": (
        lambda rng, M, K: 1 / (1 + rng.integers(0, 2000, (M, 1)) + np.arange(K) + 1),
        None,
    ),
    "alternating signs": (lambda rng, M, K: (-1.0) ** np.arange(K) * rng.random((M, K)), None),
}
KINDS = (*_ALIKE, *_ROWS)


def operands(kind, M, K, N, rng):
    """A and B of float32; of Gram matrices N is M."""
    if kind in _ALIKE:
        a, b = _ALIKE[kind](rng, (M, K)), _ALIKE[kind](rng, (K, N))
    else:
        rows, other = _ROWS[kind]
        a = rows(rng, M, K)
        b = a.T if other is None else _ALIKE[other](rng, (K, N))
    return a.astype(np.float32), b.astype(np.float32)
