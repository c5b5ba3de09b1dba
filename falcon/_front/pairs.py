"""`Pairs`: sums over products of two arrays with labelled axes, by `matmul`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from falcon._core.keywords import CallOptions
from falcon._tools.locks import importing

from .adapters import Adapter
from .adapters.host import NUMPY
from .matmul import matmul


@dataclass(frozen=True)
class Pairs:
    """Contracts arrays of one library; `dtype` is for operands of another one, None: there is none.

    Axes are labelled by letters.
    """

    adapter: Adapter
    dtype: Any
    options: CallOptions
    overflow: str = "wrap"
    # Do again what each call of `contracted` did; None: not all of it.
    ways: list[Callable[..., Any] | None] = field(default_factory=list)

    def contracted(
        self, arrays: Sequence[Any], labels: Sequence[str], wanted: str, out: Any = None
    ) -> Any:
        """Return the sum with the axes `wanted`: `out`, if that could be written directly."""
        is_whole = True
        if len(arrays) == 2:
            found = [
                self._alone(x, own, {*other, *wanted})
                for x, own, other in zip(arrays, labels, labels[::-1], strict=True)
            ]
            (x, xs), (y, ys) = found
            is_whole = [xs, ys] == [*labels]
            summed, kept = {*xs} & {*ys} - {*wanted}, {*xs} ^ {*ys}
            if summed and (kept or len(wanted) == 0):
                way = self._way(x, y, xs, ys, wanted)
                self.ways.append(way if is_whole else None)
                return way(x, y, out)
            arrays, labels = (x, y), (xs, ys)
        text = f"{','.join(labels)}->{wanted}"
        able = is_whole and self.adapter is NUMPY and self.dtype is None
        able = able and all(x.size and x.dtype.kind in "biufc" for x in arrays)
        self.ways.append(partial(np.einsum, text) if able else None)
        return self._by_library(text, arrays)

    def _by_library(self, text: str, arrays: Sequence[Any]) -> Any:
        if self.options.get("modulus") is not None:
            raise TypeError(f"modulus= reduces sums that are matrix products; {text} is none")
        kind = np.result_type(*arrays) if self.dtype is None else np.dtype(self.dtype)
        if self.overflow != "wrap" and kind.kind in "iu":
            with importing():
                from .overflow import of_library
            widens = self.overflow == "widen" and self.dtype is None
            return of_library(text, arrays, self.dtype, self.adapter.einsum, widens)
        return self.adapter.einsum(text, arrays, self.dtype)

    def _alone(self, x: Any, own: str, needed: set[str]) -> tuple[Any, str]:
        """Take diagonals, and sum over axes that neither the other operand nor the result has."""
        kept = "".join(z for z in dict.fromkeys(own) if z in needed)
        return (x if kept == own else self._by_library(f"{own}->{kept}", (x,))), kept

    def _way(self, x: Any, y: Any, xs: str, ys: str, wanted: str) -> Callable[..., Any]:
        """Return a function that multiplies arrays that lie as these by `matmul`.

        It copies none whose axes lie one after the other.
        """
        adapter = self.adapter
        batch = "".join(z for z in wanted if z in xs and z in ys)
        if next((z for z in wanted if z not in batch), "") in [*ys]:  # then the result is by rows
            swapped = self._way(y, x, ys, xs, wanted)
            return lambda x, y, out=None: swapped(y, x, out)
        sizes = dict(zip((*xs, *ys), (*x.shape, *y.shape), strict=True))
        larger = (x, xs) if prod(x.shape) >= prod(y.shape) else (y, ys)
        summed = "".join(z for z in self._sorted(*larger) if z in xs and z in ys and z not in batch)
        rows = "".join(z for z in self._sorted(x, xs) if z not in ys)
        columns = "".join(z for z in self._sorted(y, ys) if z not in xs)

        def viewed(own: str, *groups: str) -> Callable[[Any], Any]:
            axes = tuple(own.index(z) for z in batch + "".join(groups))
            shape = tuple(prod(sizes[z] for z in group) for group in (*batch, *groups))
            if axes == tuple(range(len(own))):
                return lambda array: array if array.shape == shape else array.reshape(shape)
            return lambda array: adapter.permuted(array, axes).reshape(shape)

        left, right = viewed(xs, rows, summed), viewed(ys, summed, columns)
        target, made = viewed(wanted, rows, columns), batch + rows + columns
        shape, axes = tuple(sizes[z] for z in made), tuple(made.index(z) for z in wanted)
        how: dict[str, Any] = {**self.options, "dtype": self.dtype}

        def way(x: Any, y: Any, out: Any = None) -> Any:
            if out is not None:
                view = target(out)
                if adapter.matrix(view).overlaps(adapter.matrix(out)):  # it is no copy
                    matmul(left(x), right(y), view, **how)
                    return out
            return adapter.permuted(matmul(left(x), right(y), **how).reshape(shape), axes)

        return way

    def _sorted(self, x: Any, own: str) -> str:
        """Return the labels of an array by the order of its axes in memory."""
        strides = self.adapter.matrix(x).strides
        return "".join(sorted(own, key=lambda z: -abs(strides[own.index(z)])))
