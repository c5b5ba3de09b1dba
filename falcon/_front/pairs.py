"""`Pairs`: sums over products of two arrays with labelled axes, by `matmul`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from falcon._core.keywords import CallOptions

from .adapters import Adapter
from .matmul import matmul


@dataclass(frozen=True)
class Pairs:
    """Contracts arrays of one library; `dtype` is for operands of another one, None: there is none.

    Axes are labelled by letters.
    """

    adapter: Adapter
    dtype: Any
    options: CallOptions

    def contracted(
        self, arrays: Sequence[Any], labels: Sequence[str], wanted: str, out: Any = None
    ) -> Any:
        """Return the sum with the axes `wanted`: `out`, if that could be written directly."""
        if len(arrays) == 2:
            found = [
                self._alone(x, own, {*other, *wanted})
                for x, own, other in zip(arrays, labels, labels[::-1], strict=True)
            ]
            (x, xs), (y, ys) = found
            summed, kept = {*xs} & {*ys} - {*wanted}, {*xs} ^ {*ys}
            if summed and (kept or len(wanted) == 0):
                return self._multiplied(x, y, xs, ys, wanted, out)
            arrays, labels = (x, y), (xs, ys)
        return self._by_library(f"{','.join(labels)}->{wanted}", arrays)

    def _by_library(self, text: str, arrays: Sequence[Any]) -> Any:
        if self.options.get("modulus") is not None:
            raise TypeError(f"modulus= reduces sums that are matrix products; {text} is none")
        return self.adapter.einsum(text, arrays, self.dtype)

    def _alone(self, x: Any, own: str, needed: set[str]) -> tuple[Any, str]:
        """Take diagonals, and sum over axes that neither the other operand nor the result has."""
        kept = "".join(z for z in dict.fromkeys(own) if z in needed)
        return (x if kept == own else self._by_library(f"{own}->{kept}", (x,))), kept

    def _multiplied(self, x: Any, y: Any, xs: str, ys: str, wanted: str, out: Any) -> Any:
        """Multiply two arrays by `matmul`, without a copy where axes lie one after the other."""
        adapter = self.adapter
        batch = "".join(z for z in wanted if z in xs and z in ys)
        if next((z for z in wanted if z not in batch), "") in [*ys]:  # then the result is by rows
            x, y, xs, ys = y, x, ys, xs
        sizes = dict(zip((*xs, *ys), (*x.shape, *y.shape), strict=True))
        larger = (x, xs) if prod(x.shape) >= prod(y.shape) else (y, ys)
        summed = "".join(z for z in self._sorted(*larger) if z in xs and z in ys and z not in batch)
        rows = "".join(z for z in self._sorted(x, xs) if z not in ys)
        columns = "".join(z for z in self._sorted(y, ys) if z not in xs)

        def viewed(array: Any, own: str, *groups: str) -> Any:
            axes = tuple(own.index(z) for z in batch + "".join(groups))
            shape = [sizes[z] for z in batch] + [prod(sizes[z] for z in group) for group in groups]
            return adapter.permuted(array, axes).reshape(tuple(shape))

        left, right = viewed(x, xs, rows, summed), viewed(y, ys, summed, columns)
        how: dict[str, Any] = {**self.options, "dtype": self.dtype}
        if out is not None:
            target = viewed(out, wanted, rows, columns)
            if adapter.matrix(target).overlaps(adapter.matrix(out)):  # it is no copy
                matmul(left, right, target, **how)
                return out
        made = batch + rows + columns
        product = matmul(left, right, **how).reshape(tuple(sizes[z] for z in made))
        return adapter.permuted(product, tuple(made.index(z) for z in wanted))

    def _sorted(self, x: Any, own: str) -> str:
        """Return the labels of an array by the order of its axes in memory."""
        strides = self.adapter.matrix(x).strides
        return "".join(sorted(own, key=lambda z: -abs(strides[own.index(z)])))
