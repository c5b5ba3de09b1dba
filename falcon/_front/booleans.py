"""Products of booleans: by NumPy, or counted as products of bytes. Their values decide which."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core.options import Options, are_default
from falcon._numpy import original

from .validate import matmul_shape

# They are counted where np.matmul, which stops at the first pair of True, would look at so many
# pairs, and at one for so many products of rows and columns, of which kernels multiply eight at a
# time. Each entry takes it as long as so many pairs more (Zen 3, one thread and two).
_LEAST_COUNTED, _PER_PAIR, _LINES, _PER_ENTRY = 48**3, 24, 8, 5
_FIRST = 32  # pairs of some entries that are looked at before
_BOOL = np.dtype(bool).num


def are_numpys(a: Any, b: Any, out: Any, arguments: tuple) -> bool:
    """Whether these are plain arrays of booleans of a call without options that NumPy multiplies.

    No more is looked at: small ones take NumPy a microsecond.
    """
    if not (type(a) is type(b) is np.ndarray and a.dtype.num == b.dtype.num == _BOOL):
        return False
    is_plain = out is None or (type(out) is np.ndarray and out.flags.forc)
    return is_plain and not arguments and are_default() and not _is_counted(a, b)


def are_counted(a: Any, b: Any, out: Any, options: Options) -> bool:
    """Whether these are arrays of booleans that falcon's engine multiplies faster, by counting."""
    return (
        type(a) is type(b) is np.ndarray
        and a.dtype == b.dtype == np.bool_
        and min(a.ndim, b.ndim) >= 2
        and (out is None or type(out) is np.ndarray)
        and options.backend == "auto"
        and (out is None or out.shape == sum(matmul_shape(a.shape, b.shape, None), ()))
        and options.scheme in ("auto", "classical")
        and options.workspace_limit is options.modulus is None
        and not host_engine().is_library
        and _is_counted(a, b)
    )


def as_integers(a: Any, b: Any) -> tuple[Any, Any]:
    """Return operands of which one is of booleans, the other of integers, as integers."""
    if not all(type(x) in (np.ndarray, list, tuple) for x in (a, b)):
        return a, b
    x, y = np.asarray(a), np.asarray(b)
    mixed = {x.dtype.kind, y.dtype.kind} in ({"b", "i"}, {"b", "u"})
    return (x.astype(z := np.result_type(x, y)), y.astype(z)) if mixed else (a, b)


def _is_counted(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether np.matmul would look at so many pairs of booleans that counting them is faster.

    It stops at the first pair of True: how soon, some entries of the result tell.
    """
    if a.ndim < 2 or b.ndim < 2 or a.size * b.shape[-1] < _LEAST_COUNTED:
        return False
    (M, K), N, batch = a.shape[-2:], b.shape[-1], 1
    if M == 1 or N == 1 or M * N < _LINES**2:
        return False  # a sample would take longer than to find pairs in dense data
    if a.ndim > 2 or b.ndim > 2:
        batch = max(a.size // (M * K), b.size // (K * N))
        a, b = (x[tuple([n // 2 for n in x.shape[:-2]])] for x in (a, b))
    found = original.matmul(a[:: M // _LINES or 1, :_FIRST], b[:_FIRST, :: N // _LINES or 1])
    missed = found.size - np.count_nonzero(found)
    pairs = K if missed == found.size else min(K, _FIRST / log(found.size / (missed or 0.5)))
    counted = max(M, _LINES) * max(N, _LINES) * K / _PER_PAIR
    return batch * (M * N * (pairs + _PER_ENTRY) - counted) >= _LEAST_COUNTED
