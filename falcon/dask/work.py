"""What the tasks of a product run on a worker.

A task reads its inputs and returns a new array: dask may run it again, and others read its inputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import isnan, prod
from typing import Any

import numpy as np

import falcon
from falcon import Plan
from falcon._front.surface import adapt_operands, dtype_of, host_engine, is_on_gpu, run_planned

from .grid import Cut


@dataclass(frozen=True)
class Work:
    """What all tasks of a product share: plans, made by the client, and options for all others.

    What has no plan, a GPU's arrays and chunks of unknown sizes, `falcon.gemm` plans on the worker.
    """

    plans: bytes  # a pickled dict by (M, N, K, whether it is added); read once `version` is right
    dtype: Any  # of the result
    alpha: Any = 1
    version: str = falcon.__version__  # the client's
    options: dict[str, Any] = field(default_factory=dict)
    # In which x, y and c are multiplied and added; empty for a GPU's arrays.
    kinds: tuple[np.dtype, ...] = ()

    def plan(self, M: int, N: int, K: int, added: bool) -> Plan | None:
        """Return the plan of a product; raises RuntimeError in another version of falcon."""
        if self.version != falcon.__version__:
            raise RuntimeError(
                f"this product was planned by falcon {self.version}, but this worker has falcon "
                f"{falcon.__version__}: install the same version on the client and all workers"
            )
        return _loaded(self.plans).get((M, N, K, added))

    def chunk(self, name: str, x: Any, shape: tuple[float, ...]) -> Any:
        """Return a chunk of x, y or c as it is multiplied; raise if its array states another."""
        x = x() if isinstance(x, partial) else x
        kind, what = type(x), f"a chunk of {name}"
        if kind not in (np.ndarray, np.memmap) and (self.kinds or not is_on_gpu(x)):
            wanted = "numpy" if self.kinds else "cupy"
            found = f"{kind.__module__}.{kind.__name__}"
            raise TypeError(f"{what} is a {found}; expected a {wanted}.ndarray")
        known = [s if isnan(t) else t for s, t in zip(x.shape, shape, strict=False)]
        if len(x.shape) != len(shape) or list(x.shape) != known:
            why = "the array's chunks are not of the sizes that it states"
            raise ValueError(f"{what} has shape {x.shape}; expected {shape}: {why}")
        dtype = self.kinds["xyc".index(name)] if self.kinds else x.dtype
        if not np.can_cast(x.dtype, dtype, "same_kind"):
            why = "(same_kind): the array's chunks are not of the dtype that it states"
            raise TypeError(f"{what} has dtype {x.dtype}, which does not cast to {dtype} {why}")
        return x.astype(dtype, copy=False)


@lru_cache(64)
def _loaded(plans: bytes) -> dict[tuple, Plan]:
    found: dict[tuple, Plan] = pickle.loads(plans)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """One task: products along K that are added up, to what another task returned or to c."""

    cuts: tuple[tuple[Cut, Cut], ...]  # which parts of x's and y's chunk each product takes
    folds: bool  # y has no batch: all rows of x are multiplied in one product
    beta: Any  # what is added is multiplied by it

    def __call__(self, work: Work, added: Any, left: Sequence[Any], right: Sequence[Any]) -> Any:
        """Return ``alpha sum(left @ right) + beta added``, accumulated in one new array."""
        out, beta = None, self.beta
        for (of_x, of_y), x, y in zip(self.cuts, left, right, strict=True):
            a = work.chunk("x", x, of_x.shape)[of_x.part]
            b = work.chunk("y", y, of_y.shape)[of_y.part]
            shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
            if a.shape[-1] != b.shape[-2] or (out is not None and out.shape != shape):
                raise ValueError(f"chunks of x and y, {a.shape} and {b.shape}, do not fit together")
            if out is None:
                out = adapt_operands(a=a)[0].empty(shape, dtype_of(work.dtype), (a,))
                if added is not None:
                    added = work.chunk("c", added, shape)
            self._add(work, a, b, added, out, beta)
            added, beta = out, 1
            del a, b  # before the next chunks are read
        assert out is not None  # every step has a product
        return out

    def _add(self, work: Work, a: Any, b: Any, c: Any, out: Any, beta: Any) -> None:
        """Write ``alpha a @ b + beta c`` to `out`."""
        batch = out.shape[:-2]
        if 0 in out.shape:
            return
        if self.folds:
            batch, rows = (), prod(out.shape[:-1])
            a, c, out = (x if x is None else x.reshape(rows, x.shape[-1]) for x in (a, c, out))
        reduced = work.options.get("modulus") or work.options.get("overflow", "wrap") != "wrap"
        if a.shape[-1] == 0 and not reduced:
            out[...] = 0 if c is None else beta * c
            return
        plan = work.plan(out.shape[-2], out.shape[-1], a.shape[-1], c is not None)
        if plan is not None:
            run_planned(plan, a, b, c, out, work.alpha, beta)
            return
        for at in np.ndindex(*batch):
            added = None if c is None else c[at]
            how: Any = {"beta": 0 if c is None else beta, **work.options}
            falcon.gemm(a[at], b[at], added, alpha=work.alpha, out=out[at], **how)


def summed(parts: Sequence[Any], modulus: int | None = None, checks: bool = False) -> Any:
    """Return the sum of arrays, as a new one; `checks`: of integers, raise if it does not fit."""
    if modulus is not None:
        made = np.empty_like(parts[0])
        *rows, out = (x.reshape(-1, x.shape[-1]) for x in (*parts, made))
        host_engine().reduce([(x, 1, 0, 0) for x in rows], [(out, 0)], modulus)
        return made
    out = parts[0].copy()
    for x in parts[1:]:
        out += x
        # It wrapped: signs of both terms differ from the sum's, or an unsigned sum is less.
        if checks and (out < x if out.dtype.kind == "u" else (out ^ x) & (out - x ^ out) < 0).any():
            raise OverflowError(f"a sum over chunks along K is beyond {out.dtype}")
    return out


def narrowed(x: np.ndarray, kind: np.dtype, block_info: Any = None) -> np.ndarray:
    """Return a chunk of integers in a narrower type; raise OverflowError if they do not fit it."""
    limits = np.iinfo(kind)
    wrong = np.argwhere((x < limits.min) | (x > limits.max))
    if len(wrong):
        begins = [start for start, _ in block_info[0]["array-location"]]
        place = ", ".join(str(i + start) for i, start in zip(wrong[0], begins, strict=True))
        raise OverflowError(
            f"entry [{place}] of the product is {x[tuple(wrong[0])]}, beyond {kind} "
            f"({limits.min} to {limits.max})"
        )
    return x.astype(kind)


def mirrored(x: Any) -> Any:
    """Return the conjugate transpose of a chunk."""
    return x.T.conj() if x.dtype.kind == "c" else x.T


def whole(x: Any) -> Any:
    """Return a chunk on the diagonal, with its lower triangle mirrored."""
    made = x.copy()
    for i in range(len(made)):
        made[:i, i], made[i, i] = mirrored(made[i, :i]), made[i, i].real
    return made
