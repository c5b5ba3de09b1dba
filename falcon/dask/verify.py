"""`verify`: Freivalds' test of a product of Dask arrays, chunk by chunk."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np

from falcon._front.freivalds import TRIALS, Freivalds, Verification, real_parts
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
        return _Scaled(x, *about)

    def times(self, x: Any, vectors: np.ndarray) -> np.ndarray:
        return (x.astype(vectors.dtype) @ vectors).compute()


class _Scaled:
    """`falcon._front.freivalds.Scaled`, of a Dask array."""

    def __init__(
        self, x: Any, kind: np.dtype, kept: np.ndarray | None = None, exponent: int | None = None
    ) -> None:
        x, self.shape = x.astype(kind), x.shape
        finite = da.isfinite(x)
        tested = finite if kept is None else finite | ~kept
        largest = x.map_blocks(_largest, chunks=tuple((1,) * len(y) for y in x.chunks))
        self.rows, self.columns, found = dask.compute(tested.all(1), finite.all(0), largest)
        if exponent is None:
            exponent = int(np.frexp(found.real.max(initial=0))[1])
        self.exponent, self._x = exponent, x.map_blocks(_divided, exponent)

    def times(
        self, vectors: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weighted = self._squares() * weights
        made = self._x @ vectors, da.sqrt(weighted.sum(1)), da.square(weighted).sum(1)
        return dask.compute(*made)

    def column_norms(self) -> np.ndarray:
        return np.sqrt(self._squares().sum(0).compute())

    def _squares(self) -> Any:
        return da.square(abs(self._x)).astype(np.float64)


def _largest(x: np.ndarray) -> np.ndarray:
    real = abs(real_parts(x))
    return real.max(initial=0, where=np.isfinite(real)).astype(x.dtype).reshape(1, 1)


def _divided(x: np.ndarray, exponent: int) -> np.ndarray:
    """Divide finite numbers by 2 to the exponent; the others become 0."""
    made = np.where(np.isfinite(x), x, x.dtype.type(0))
    np.ldexp(real_parts(made), -exponent, out=real_parts(made))
    return made
