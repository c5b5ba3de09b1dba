"""Gram matrices of small matrices, and of batches of them: a product as any other, and few passes.

One triangle alone, or kernels that weigh, would save less than it takes to plan them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.symmetric import copy_triangle, mirror
from falcon._numpy.original import quiet_matmul

from .matmul import matmul

# Real products M^2 K of a matrix up to which it is small. With weights the engine's kernels take
# this way's time 34 times at 8^3, 5 times at 64^3, 1.2 times at 128^3 (float32, Zen 3, one thread).
_MOST = 128**3
_CHUNK = 2**17  # elements of a batch that are taken through all passes at a time
# Real types of those that are multiplied so.
_REALS = {np.dtype(x): np.dtype(x.lower()) for x in "fdFD"}
# Of rows of products with real and with imaginary parts, in their sum.
_FACTORS = {(x, y): np.array([1, -1j if y else 1j], x) for x in "FD" for y in (False, True)}


def gram_of_small(
    x: Any, c: Any, out: Any, weights: Any, alpha: Any, beta: Any, how: tuple[str, bool, bool]
) -> Any:
    """Return what `gram` does for small matrices, by default options; None for other calls.

    `how`: symmetric, transpose, conjugate.
    """
    symmetric, transpose, conjugate = how
    real = _REALS.get(x.dtype) if type(x) is np.ndarray and x.ndim > 1 else None
    if real is None or not (_is_plain(alpha) and (c is None or _is_plain(beta))):
        return None
    K, M = x.shape[-2:][:: -1 if transpose else 1]
    batch, is_complex = x.shape[:-2], x.dtype.kind == "c"
    if not x.size or M * M * K * (4 if is_complex else 1) > _MOST:
        return None
    shape, hermitian = (*batch, M, M), is_complex and conjugate
    if not (_fits(c, x.dtype, shape) and _fits(out, x.dtype, shape)):
        return None
    if not (_fits(weights, real, (K,)) or _fits(weights, real, (*batch, K))):
        return None
    if out is not None and not _is_apart(out, c, x, weights):
        return None
    if not batch:
        return _multiplied(x, c, out, weights, alpha, beta, hermitian, how)
    if out is None:
        out = (np.empty if symmetric == "full" else np.zeros)(shape, x.dtype)
    return _each(x, c, out, weights, alpha, beta, hermitian, how)


def _each(x: Any, c: Any, out: Any, weights: Any, *factors: Any) -> Any:
    """Multiply the matrices of a batch into `out`, some at a time; `factors`: as `_multiplied`."""
    K, M = x.shape[-2:][:: -1 if factors[-1][1] else 1]
    flat, written = x.reshape(-1, *x.shape[-2:]), out.reshape(-1, M, M)
    added = None if c is None else c.reshape(-1, M, M)
    each = weights is not None and weights.ndim > 1
    weights = weights.reshape(-1, K) if each else weights
    step = max(1, _CHUNK // (M * max(K, M)))
    for start in range(0, len(flat), step):
        at = slice(start, start + step)
        operands = flat[at], None if added is None else added[at], written[at]
        _multiplied(*operands, weights[at] if each else weights, *factors)
    return out


def _is_apart(out: np.ndarray, c: Any, *others: Any) -> bool:
    """Whether out is by rows, and overlaps nothing that is read, unless it is c."""
    read = [y for y in others if y is not None] + ([] if c is None or c is out else [c])
    is_fit = out.flags.c_contiguous and out.flags.writeable
    return is_fit and not any(np.may_share_memory(out, y) for y in read)


def _is_plain(factor: Any) -> bool:
    """Whether alpha or beta is a number of Python's that is surely not rounded to zero."""
    return type(factor) in (int, float) and 1e-30 < abs(factor) < 1e300


def _fits(x: Any, dtype: np.dtype, shape: tuple[int, ...]) -> bool:
    return x is None or (type(x) is np.ndarray and x.dtype == dtype and x.shape == shape)


def _multiplied(
    x: np.ndarray, c: Any, out: Any, weights: Any, alpha: Any, beta: Any, hermitian: bool, how: Any
) -> np.ndarray:
    """Multiply a matrix, or a batch; return `out`, or a new array."""
    symmetric, transpose, _ = how
    across = x.swapaxes(-1, -2)
    a, b = (x, across) if transpose else (across, x)
    in_halves = x.dtype.kind == "c" and x.ndim == 2 and weights is None
    is_direct = symmetric == "full" and c is None and not in_halves
    with np.errstate(all="ignore"):
        if in_halves:
            product = by_halves(x, transpose, hermitian)
        else:
            if hermitian:
                a, b = (a, b.conj()) if transpose else (a.conj(), b)
            if weights is not None:
                b = weights[..., None] * b
            product = matmul(a, b, out if is_direct else None)
        if alpha != 1:
            product *= alpha
        if c is not None:
            product += c if beta == 1 else beta * c
    if symmetric == "full":
        if c is not None or weights is not None or (x.dtype.kind == "c" and not in_halves):
            mirror(product, hermitian)
        if out is None or is_direct:
            return product
        np.copyto(out, product)
        return out
    target = np.zeros(product.shape, product.dtype) if out is None else out
    copy_triangle(product, target, symmetric)
    return target


def by_halves(x: np.ndarray, transpose: bool, hermitian: bool) -> np.ndarray:
    """Multiply real and imaginary parts as columns of one real matrix, and add up its entries.

    The real product is symmetric to the last bit, so that the result is symmetric, or Hermitian.
    """
    columns = np.ascontiguousarray(x.T if transpose else x).view(x.dtype.char.lower())
    product = matmul(columns.T, columns)  # recalls its calls
    M = len(product) // 2
    out = np.empty((M, M), x.dtype)
    rows, factors = product.view(x.dtype).reshape(M, 2, M), _FACTORS[x.dtype.char, hermitian]
    quiet_matmul(factors, rows, out.T if transpose else out)
    return out
