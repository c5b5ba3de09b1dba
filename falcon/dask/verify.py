"""`verify`: Freivalds' test of a product of Dask arrays, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from itertools import count
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.callbacks import Callback

from falcon._core.checks import check_modulus
from falcon._core.dtypes import of
from falcon._core.progress import Progress
from falcon._front.freivalds import Freivalds, Verification, real_parts, times_modulo
from falcon._front.verify import run_test

from .grid import check_known, matrices
from .plan import plan


def verify(
    x: Any,
    y: Any,
    c: Any,
    *,
    growth: float | None = None,
    modulus: int | None = None,
    trials: int | None = None,
    seed: int | None = None,
    progress: bool = True,
) -> Verification:
    """Check ``c == x @ y`` by Freivalds' randomised test, now.

    Parameters
    ----------
    x, y, c : dask.array.Array, shapes (M, K), (K, N), (M, N)
        Of any chunks. x and c are made or read twice, y three times, integers once, chunk by chunk.
    growth : float, optional
        Allowed error growth: by default 8, or for x and y of one type of 16 bits that of
        ``falcon.dask.plan(x, y)``.
    modulus, trials, seed
        As for `falcon.verify`.
    progress : bool
        Say on standard error how much was read, and about how long it still takes: as
        `falcon.torch.convert_` does. On a cluster it moves after each of the readings.

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
    modulus = check_modulus("modulus", modulus)
    is_exact = modulus is not None or all(v.dtype.kind in "biu" for v in (x, y, c))
    times = (1, 1, 1) if is_exact else (2, 3, 2)
    most = sum(n * v.nbytes for n, v in zip(times, (x, y, c), strict=True)) / 1e9
    bar = Progress("reading chunks", most, "GB")
    with bar if progress else nullcontext():
        if modulus is None:
            return run_test(partial(_Chunked, bar), plan, (x, y, c), growth, trials, seed)
        about: dict[str, Any] = {"modulus": modulus, "trials": trials, "seed": seed}
        return _Chunked(bar, x, y, dtype=of("int64"), **about).check(c, 1.0)


@contextmanager
def _reading(bar: Progress, x: Any) -> Iterator[None]:
    """Move the bar while tasks read x once; distributed does not tell of tasks, but in the end."""
    start, size, done, total = bar.count, x.nbytes / 1e9, count(1), [1]
    with Callback(
        start_state=lambda tasks, _: total.append(len(tasks)),
        posttask=lambda *_: bar.at(start + size * min(next(done) / total[-1], 1.0)),
    ):
        yield
    bar.at(start + size)


class _Chunked(Freivalds):
    def __init__(self, bar: Progress, *operands: Any, **about: Any) -> None:
        self._bar = bar
        super().__init__(*operands, **about)

    def scaled(self, x: Any, *about: Any) -> Any:
        return _Scaled(self._bar, x, *about)

    def times(self, x: Any, vectors: np.ndarray) -> np.ndarray:
        p, of_chunks = self._modulus, da.from_array(vectors, chunks=(x.chunks[1], -1))
        with _reading(self._bar, x):
            if p is None:
                return (x.astype(vectors.dtype) @ vectors).compute()
            how = {"dtype": np.uint64, "concatenate": False, "adjust_chunks": {"j": 1}}
            parts = da.blockwise(_modulo, "ijk", x, "ij", of_chunks, "jk", p, None, **how)
            return reduce(lambda y, z: (y + z) % np.uint64(p), np.moveaxis(parts.compute(), 1, 0))


class _Scaled:
    """`falcon._front.freivalds.Scaled`, of a Dask array."""

    def __init__(
        self,
        bar: Progress,
        x: Any,
        kind: np.dtype,
        kept: np.ndarray | None = None,
        exponent: int | None = None,
    ) -> None:
        self._bar, self._given, self.shape = bar, x, x.shape
        x = x.astype(kind)
        finite = da.isfinite(x)
        tested = finite if kept is None else finite | ~kept
        largest = x.map_blocks(_largest, chunks=tuple((1,) * len(y) for y in x.chunks))
        with _reading(bar, self._given):
            self.rows, self.columns, found = dask.compute(tested.all(1), finite.all(0), largest)
        if exponent is None:
            exponent = int(np.frexp(found.real.max(initial=0))[1])
        self.exponent, self._x = exponent, x.map_blocks(_divided, exponent)

    def times(
        self, vectors: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weighted = self._squares() * weights
        made = self._x @ vectors, da.sqrt(weighted.sum(1)), da.square(weighted).sum(1)
        with _reading(self._bar, self._given):
            return dask.compute(*made)

    def column_norms(self) -> np.ndarray:
        with _reading(self._bar, self._given):
            return np.sqrt(self._squares().sum(0).compute())

    def _squares(self) -> Any:
        return da.square(abs(self._x)).astype(np.float64)


def _modulo(x: np.ndarray, vectors: np.ndarray, p: int) -> np.ndarray:
    return times_modulo(x, vectors, p)[:, None]


def _largest(x: np.ndarray) -> np.ndarray:
    real = abs(real_parts(x))
    return real.max(initial=0, where=np.isfinite(real)).astype(x.dtype).reshape(1, 1)


def _divided(x: np.ndarray, exponent: int) -> np.ndarray:
    """Divide finite numbers by 2 to the exponent; the others become 0."""
    made = np.where(np.isfinite(x), x, x.dtype.type(0))
    np.ldexp(real_parts(made), -exponent, out=real_parts(made))
    return made
