"""Operands seen as other matrices, without a copy: a view needs no plan of its own.

::

    as_matrices    vectors as matrices; all rows of a batch as one matrix
    as_reals       complex by real: rows of reals, or the two parts as a batch
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from falcon._backends import host_engine

# Operations and sizes from which parts of a complex matrix, whose elements lie apart, are real
# products; below, a BLAS's complex product takes as long, or half (300^3: 0.98, 512^3: 1.33 of it).
_LEAST_PARTS, _SHORTEST_PART = 2e8, 128


def as_matrices(a: Any, b: Any, out: Any, batch: tuple[int, ...]) -> Callable[..., Any] | None:
    """Return a function that views a, b and out as matrices, or batches; None: they are.

    All rows of a batch are one matrix, where they can be, if B is one.
    """
    dims = len(a.shape), len(b.shape)
    if () != tuple(a.shape[:-2]) == batch and dims[1] == 2 and folds(a) and folds(out):
        return lambda a, b, out: (a.reshape(-1, a.shape[-1]), b, out.reshape(-1, out.shape[-1]))
    if 1 not in dims:
        return None
    row, column = dims[0] == 1, dims[1] == 1
    rest = (None,) if row else (slice(None),)
    at = (..., *rest, None) if column else (..., None, slice(None))

    def viewed(a: Any, b: Any, out: Any) -> tuple[Any, Any, Any]:
        return a[None] if row else a, b[:, None] if column else b, out[at]

    return viewed


def folds(x: Any) -> bool:
    """Whether a view of a batch in host memory is one matrix with all rows.

    (Batches on a GPU are multiplied by one strided-batched product.)
    """
    if not isinstance(x, np.ndarray) or not x.size:
        return False
    axes = zip(x.shape[:-1], x.strides[:-1], strict=True)
    long = [(n, stride) for n, stride in axes if n > 1]  # strides of other axes mean nothing
    return all(stride == n * step for (_, stride), (n, step) in pairwise(long))


def as_reals(x: Any) -> Callable[..., tuple[Any, ...]] | None:
    """Return how a product's a, b, c and out are viewed for real products: half of the work.

    Of a complex and a real matrix, else None: rows of a complex b are those of a real matrix twice
    as wide; the parts of others are a batch of two.
    """
    if not (x.operand.is_complex and x.dtype is x.operand and x.adapter.device is None):
        return None
    if x.packed is not None or x.symmetric or np.imag(x.alpha) or np.imag(x.beta):
        return None
    if x.options.reproducible == "rows":  # sizes would decide
        return None
    left, right, *others = (y.dtype.kind == "c" for y in (x.a, x.b, x.c, x.out) if y is not None)
    if left == right or not all(others):
        return None
    some = [y for y in (x.b, x.c, x.out) if y is not None]
    if right and all(y.strides[-1] == y.itemsize and y.shape[-1] > 1 for y in some):
        return lambda a, b, c, out: (a, *map(_by_rows, (b, c, out)))
    if not _do_parts_pay(x) or _does_write_what_it_reads(x):
        return None
    if left:
        return lambda a, b, c, out: (_parts(a, out.ndim), b, *(_parts(y) for y in (c, out)))
    return lambda a, b, c, out: (a, _parts(b, out.ndim), *(_parts(y) for y in (c, out)))


def _do_parts_pay(x: Any) -> bool:
    """Whether two products of parts are faster; a BLAS copies what has other strides."""
    sizes, engine = (*x.out.shape[-2:], x.a.shape[-1]), host_engine()
    if 2.0 * prod(sizes) < _LEAST_PARTS or min(sizes) < _SHORTEST_PART:
        return False
    is_slow = engine.is_library or engine.kernels() == "generic"
    return not is_slow and x.options.backend in ("auto", engine.name)


def _does_write_what_it_reads(x: Any) -> bool:
    """Whether one part would be written before the other is read."""
    written, *read = (x.adapter.matrix(y) for y in (x.out, x.a, x.b, x.c) if y is not None)
    if x.c is not None and read[-1].is_same(written):
        read.pop()
    return any(written.overlaps(y) for y in read)


def _by_rows(x: Any) -> Any:
    return None if x is None else x.view(x.real.dtype)


def _parts(x: Any, ndim: int = 0) -> Any:
    """Return the real and the imaginary parts of an array, of so many axes, as two in one."""
    if x is None:
        return None
    x = x[(None,) * (ndim - x.ndim)]
    return as_strided(x.real, (2, *x.shape), (x.itemsize // 2, *x.strides))
