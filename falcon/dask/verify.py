"""`verify`: Freivalds' test of a product of Dask arrays, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import dask
import numpy as np

from falcon._front.freivalds import TRIALS, Freivalds, Scaled, Verification, times
from falcon._front.verify import run_test

from .grid import check_known, matrices
from .plan import plan


def verify(
    x: Any,
    y: Any,
    c: Any,
    *,
    growth: float | None = None,
    trials: int = TRIALS,
    seed: int | None = None,
) -> Verification:
    """Check ``c == x @ y`` by Freivalds' randomised test, now.

    Parameters
    ----------
    x, y, c : dask.array.Array, shapes (M, K), (K, N), (M, N)
        Of any chunks. x and c are made or read twice, y three times, chunk by chunk.
    growth : float, optional
        Allowed error growth: by default 8, or for x and y of one type of 16 bits that of
        ``falcon.dask.plan(x, y)``.
    trials, seed
        As for `falcon.verify`.

    Returns
    -------
    falcon.Verification
        The same as of ``falcon.verify`` for the whole matrices.

    Raises
    ------
    ValueError
        Shapes do not match, or chunk sizes are unknown.

    Examples
    --------
    >>> import dask.array as da, falcon
    >>> x = da.ones((60, 40), chunks=20)
    >>> bool(falcon.dask.verify(x, x.T, falcon.dask.matmul(x, x.T)))
    True
    """
    x, y, c = matrices(x=x, y=y, c=c)
    check_known(x, y, (x.shape, y.shape))
    if x.shape[1] != y.shape[0] or c.shape != (x.shape[0], y.shape[1]):
        raise ValueError(f"shapes do not fit: x {x.shape}, y {y.shape}, c {c.shape}")
    return run_test(_Chunked, plan, (x, y, c), growth, trials, seed)


class _Chunked(Freivalds):
    def scaled(self, x: Any, *about: Any) -> Any:
        return _ScaledChunks(x, *about)

    def times(self, x: Any, vectors: np.ndarray) -> np.ndarray:
        return np.concatenate([sum(row) for row in _by_chunk(x, times, vectors)])


class _ScaledChunks:
    """`Scaled`, of a Dask array."""

    def __init__(
        self, x: Any, kind: np.dtype, kept: np.ndarray | None = None, exponent: int | None = None
    ) -> None:
        self._x, self._kind, self.shape = x, kind, x.shape
        found = _by_chunk(x, _rows_columns_exponent, kept, kind=kind)
        self.rows = np.concatenate([np.all([v[0] for v in row], axis=0) for row in found])
        columns = zip(*found, strict=True)
        self.columns = np.concatenate([np.all([v[1] for v in some], axis=0) for some in columns])
        largest = max((v[2] for row in found for v in row), default=0)
        self.exponent = largest if exponent is None else exponent

    def times(
        self, vectors: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = []
        for row in self._each("times", vectors, weights):
            products, norms, fourths = (np.array(some) for some in zip(*row, strict=True))
            found.append((products.sum(0), np.linalg.norm(norms, axis=0), fourths.sum(0)))
        product, norms, fourths = (np.concatenate(some) for some in zip(*found, strict=True))
        return product, norms, fourths

    def column_norms(self) -> np.ndarray:
        columns = zip(*self._each("column_norms"), strict=True)
        return np.concatenate([np.linalg.norm(some, axis=0) for some in columns])

    def _each(self, name: str, *of_columns: np.ndarray) -> list[list[Any]]:
        how = {"kind": self._kind, "exponent": self.exponent}
        return _by_chunk(self._x, _call_scaled, *of_columns, name=name, **how)


def _by_chunk(x: Any, function: Callable, *of_columns: Any, **how: Any) -> list[list[Any]]:
    """Return what a function returns for each chunk and the parts of vectors along its columns."""
    ends = list(accumulate(x.chunks[1]))
    parts = [slice(end - size, end) for end, size in zip(ends, x.chunks[1], strict=True)]
    one = dask.delayed(function, pure=False)
    made = [
        [one(block, *(None if v is None else v[at] for v in of_columns), **how)
         for block, at in zip(row, parts, strict=True)]
        for row in x.to_delayed()
    ]  # fmt: skip
    return list(dask.compute(*made))


def _rows_columns_exponent(
    x: Any, kept: np.ndarray | None, kind: np.dtype
) -> tuple[np.ndarray, np.ndarray, int]:
    scaled = Scaled(x, kind, kept)
    return scaled.rows, scaled.columns, scaled.exponent


def _call_scaled(x: Any, *of_columns: np.ndarray, kind: np.dtype, exponent: int, name: str) -> Any:
    scaled = Scaled(x, kind, np.ones(x.shape[1], bool), exponent)
    return getattr(scaled, name)(*of_columns)
