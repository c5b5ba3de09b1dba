"""`verify`: Freivalds' test of a product of Dask arrays, chunk by chunk.

Of floats, a task measures one chunk, and multiplies it by random vectors: `_Part`. Parts along a
row, or a column, of chunks are added up by other tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import Any

import dask.array as da
import numpy as np
from dask.callbacks import Callback

from falcon import Verification
from falcon._front.surface import Freivalds, Scaled, dtype_of, limited, run_test, times_modulo
from falcon._tools.checks import check_modulus
from falcon._tools.progress import Progress

from .cluster import client, current_cluster
from .grid import check_known, matrices
from .plan import plan

_HELD = 0.25  # of the workers' memory, which y may take between its norms and its product
_ZERO = -(2**30)  # the exponent of a part without entries but 0: below all others


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
        Of any chunks, each of which is made or read once. Those of a y of floats are kept meanwhile
        if they take at most a quarter of the workers' memory; else they are read twice.
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
    twice = 0 if is_exact or _is_held(y) else y.nbytes
    bar = Progress("reading chunks", (x.nbytes + y.nbytes + twice + c.nbytes) / 1e9, "GB")
    with bar if progress else nullcontext():
        if modulus is None:
            return run_test(partial(_Chunked, bar), plan, (x, y, c), growth, trials, seed)
        about: dict[str, Any] = {"modulus": modulus, "trials": trials, "seed": seed}
        return _Chunked(bar, x, y, dtype=dtype_of("int64"), **about).check(c, 1.0)


def _is_held(y: Any) -> bool:
    """Whether the workers are known to have memory for y as a whole."""
    on = current_cluster(None)
    return on.memory is not None and bool(y.nbytes <= _HELD * on.memory * on.workers)


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


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of some entries of a matrix, which are divided by 2 to the `exponent`."""

    exponent: int
    finite: np.ndarray  # by rows, or by columns
    norms: np.ndarray
    product: Any = 0.0  # with the vectors
    fourths: Any = 0.0  # sums of fourth powers

    @classmethod
    def of(cls, x: Scaled, finite: np.ndarray, norms: np.ndarray, *others: Any) -> np.ndarray:
        """Return a part as the only element of an array, for `da.blockwise`."""
        exponent = x.exponent if norms.any() or any(np.any(y) for y in others) else _ZERO
        made = np.empty((1, 1), object)
        made[0, 0] = cls(exponent, finite, norms, *others)
        return made

    def __add__(self, other: _Part) -> _Part:
        exponent = max(self.exponent, other.exponent)
        x, y = self.divided(exponent), other.divided(exponent)
        norms = np.hypot(x.norms, y.norms)
        sums = x.product + y.product, x.fourths + y.fourths
        return _Part(exponent, x.finite & y.finite, norms, *sums)

    def divided(self, exponent: int) -> _Part:
        """Return it with that exponent, which is not below its own."""
        factor = np.ldexp(self.norms.dtype.type(1), self.exponent - exponent)
        sums = self.norms * factor, self.product * factor, self.fourths * factor**4
        return _Part(exponent, self.finite, *sums)


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
    """`falcon._front.freivalds.Scaled`, of a Dask array; nothing is known before it is read.

    `column_norms` finds `columns`, `times` finds `rows`, and the first of them the `exponent`.
    """

    rows: np.ndarray
    columns: np.ndarray

    def __init__(
        self,
        bar: Progress,
        x: Any,
        kind: np.dtype,
        kept: np.ndarray | None = None,
        exponent: int | None = None,
    ) -> None:
        self._bar, self._x, self._kind, self.shape = bar, x, kind, x.shape
        self._kept, self.exponent = kept, exponent
        self._is_held = False  # in the workers' memory: to use it again is not to read it

    def column_norms(self) -> np.ndarray:
        if _is_held(self._x):
            with _reading(self._bar, self._x):
                self._x, self._is_held = _persisted(self._x), True
        parts = self._measured(0, _column_norms)
        self.columns = np.concatenate([x.finite for x in parts])
        return np.concatenate([x.norms for x in parts])

    def times(
        self, vectors: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lines = (self._x.chunks[1],)
        given: list[Any] = [da.from_array(vectors, chunks=(*lines, -1)), "jk"]
        given += [da.from_array(weights, chunks=lines), "j"]
        if self._kept is not None:
            given += [da.from_array(self._kept, chunks=lines), "j", self.exponent, None]
        parts = self._measured(1, _times, *given)
        self.rows = np.concatenate([x.finite for x in parts])
        product, norms, fourths = zip(
            *((x.product, x.norms, x.fourths) for x in parts), strict=True
        )
        return np.concatenate(product), np.concatenate(norms), np.concatenate(fourths)

    def _measured(self, axis: int, how: Callable[..., np.ndarray], *given: Any) -> list[_Part]:
        """Return the parts of all chunks, added up along an axis, with one exponent."""
        kinds: dict[str, Any] = {"dtype": object, "meta": np.empty((0, 0), object)}
        sizes = {"i": 1, "j": 1}
        parts = da.blockwise(
            how, "ij", self._x, "ij", self._kind, None, *given,
            concatenate=True, adjust_chunks=sizes, **kinds,
        )  # fmt: skip
        lines = da.reduction(parts, _as_it_is, _added, axis=axis, **kinds)
        with nullcontext() if self._is_held else _reading(self._bar, self._x):
            lines = lines.compute()
        if self.exponent is None:
            exponent = max(x.exponent for x in lines)
            self.exponent = 0 if exponent == _ZERO else exponent
        return [x.divided(self.exponent) for x in lines]


def _persisted(x: Any) -> Any:
    """Return an array whose chunks are in the workers' memory."""
    made = x.persist()
    if client() is not None:
        from distributed import wait  # only where a client has imported it

        wait(made)
    return made


def _column_norms(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        scaled = Scaled(x, kind)
        return _Part.of(scaled, scaled.columns, scaled.column_norms())


def _times(
    x: np.ndarray, kind: np.dtype, vectors: np.ndarray, weights: np.ndarray, *about: Any
) -> np.ndarray:
    """Multiply a chunk; `about`: which columns are kept, and the exponent, if that is known."""
    with np.errstate(all="ignore"):
        scaled = Scaled(x, kind, *about)
        with limited(1):  # of small strips: a BLAS's threads wait longer than they multiply
            product, norms, fourths = scaled.times(vectors, weights)
        return _Part.of(scaled, scaled.rows, norms, product, fourths)


def _as_it_is(x: np.ndarray, **_: Any) -> np.ndarray:
    return x


def _added(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(x.sum(axis=axis, keepdims=keepdims))


def _modulo(x: np.ndarray, vectors: np.ndarray, p: int) -> np.ndarray:
    return times_modulo(x, vectors, p)[:, None]
