"""Symmetric products ``x.T @ x``: recognise them, and copy one triangle of C."""

from __future__ import annotations

from functools import cache

import numpy as np

# Blocks of this size on the diagonal are copied by a mask, the rest of the triangle as rectangles.
_BLOCK = 128
_FEW = 8  # entries of a row that are compared next


def same_memory(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have the same entries at the same addresses."""
    return bool(
        x.shape == y.shape
        and x.strides == y.strides
        and x.dtype == y.dtype
        and x.__array_interface__["data"][0] == y.__array_interface__["data"][0]
    )


def is_transpose(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether `b` is the transpose of `a` in the same memory, so that ``a @ b`` is symmetric.

    Of batches: all matrices of `b` are.
    """
    able = b.ndim > 1 and a.shape[-2:] == b.shape[:-3:-1] and a.strides[-2:] == b.strides[:-3:-1]
    return able and same_memory(a, b.swapaxes(-1, -2))


def is_adjoint(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether `b` holds the (conjugate) transpose of `a`, in whatever memory.

    Of batches: all matrices of `b` do.
    """
    turned = b.swapaxes(-1, -2)
    if a.shape != turned.shape or not a.size:
        return a.shape == turned.shape
    for i in (0, -1):  # most others differ there: a fraction of a microsecond
        x, y = a.item(i), turned.item(i).conjugate()
        if x != y and (x == x or y == y):
            return False
    return all(
        np.array_equal(a[at], turned[at].conj(), equal_nan=True)
        for at in ((..., slice(1), slice(_FEW)), (..., slice(None)))
    )


def is_hermitian(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether ``a @ b`` is Hermitian by its entries, and not by its memory."""
    return not is_transpose(a, b) and is_adjoint(a, b)


def copy_triangle(source: np.ndarray, out: np.ndarray, triangle: str) -> None:
    """Copy one triangle of square matrices, "lower" or "upper", their diagonals included.

    Any other word: all of it. The arrays may overlap, as in `numpy.copyto`: the source is then
    copied first, unless it is the same memory, or its transpose.
    """
    if triangle not in ("lower", "upper"):
        np.copyto(out, source, casting="same_kind")
        return
    lower, size = triangle == "lower", out.shape[-1]
    if size <= _BLOCK:
        mask = _lower(size) if lower else _lower(size).T
        np.copyto(out, source, casting="same_kind", where=mask)
        return
    if np.may_share_memory(source, out) and not (
        same_memory(source, out) or same_memory(source.swapaxes(-1, -2), out)
    ):
        source = source.copy()
    for start in range(0, size, _BLOCK):
        rows = slice(start, min(start + _BLOCK, size))
        beside = slice(0, start) if lower else slice(rows.stop, size)
        np.copyto(out[..., rows, beside], source[..., rows, beside], casting="same_kind")
        mask = _lower(rows.stop - start)
        np.copyto(
            out[..., rows, rows],
            source[..., rows, rows],
            casting="same_kind",
            where=mask if lower else mask.T,
        )


def mirror(x: np.ndarray, hermitian: bool) -> None:
    """Copy the lower triangle of square matrices to the upper one, or its conjugate."""
    across, size = x.swapaxes(-1, -2), x.shape[-1]
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        rows = slice(start, stop)
        for columns in (rows, slice(stop, size)):
            below = across[..., rows, columns]
            mask = _lower(stop - start, -1).T if columns is rows else True
            np.copyto(x[..., rows, columns], below.conj() if hermitian else below, where=mask)
            if stop == size:
                break
    if hermitian:
        diagonal = np.einsum("...ii->...i", x.imag)  # a view
        with np.errstate(all="ignore"):
            diagonal -= diagonal  # NaN and Inf leave NaN


@cache
def _lower(size: int, diagonal: int = 0) -> np.ndarray:
    """Return the mask of a lower triangle of at most `_BLOCK` rows."""
    return np.tri(size, k=diagonal, dtype=bool)
