"""What the tasks of a product run on a worker.

A task reads its inputs and returns a new array: dask may run it again, and others read its inputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.plan import Plan
from falcon._front.families import family_of
from falcon._gpu.where import is_on_gpu

Cut = tuple[Any, ...]


class Source:
    """A chunk that is made by the task that reads it: tasks of dask, and the key of the last.

    What it makes is not kept, so that a chunk that is read often takes no memory in between.
    """

    def __init__(self, graph: dict, key: Any) -> None:
        self._graph, self._key = graph, key

    def __call__(self) -> Any:
        """Make it, in this thread."""
        from dask.local import get_sync

        return get_sync(self._graph, self._key)


def opened(chunk: Any) -> Any:
    """Return a chunk's array."""
    return chunk() if isinstance(chunk, Source) else chunk


@dataclass(frozen=True)
class Work:
    """What all tasks of a product share: plans, made by the client, and options for all others.

    Attributes
    ----------
    plans : bytes
        A pickled dict of plans by (M, N, K, whether something is added); unpickled only after
        `version` was compared. What has no plan, a GPU's arrays and chunks of unknown sizes,
        `falcon.gemm` plans on the worker, by `options`.
    dtype : str
        Of the result.
    alpha, beta : scalar
    version : str
        The client's falcon.
    options : dict
    kinds : tuple of dtype
        In which x, y and c are multiplied and added; empty for a GPU's arrays.
    """

    plans: bytes
    dtype: Any
    alpha: Any = 1
    beta: Any = 0
    version: str = falcon.__version__
    options: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[np.dtype, ...] = ()

    @classmethod
    def of(cls, plans: dict[tuple, Plan], *about: Any, **more: Any) -> Work:
        """Return the work of these plans."""
        return cls(pickle.dumps(plans) if plans else b"", *about, **more)

    def plan(self, M: int, N: int, K: int, added: bool) -> Plan | None:
        """Return the plan of a product; raises RuntimeError in another version of falcon."""
        if self.version != falcon.__version__:
            raise RuntimeError(
                f"this product was planned by falcon {self.version}, but this worker has falcon "
                f"{falcon.__version__}: install the same version on the client and all workers"
            )
        return _loaded(self.plans).get((M, N, K, added)) if self.plans else None

    def chunk(self, name: str, x: Any, shape: tuple[float, ...]) -> Any:
        """Return a chunk of x, y or c as it is multiplied; raise if its array states another."""
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


@cache
def _loaded(plans: bytes) -> dict[tuple, Plan]:
    found: dict[tuple, Plan] = pickle.loads(plans)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """One task: products along K that are added up, to what another task returned or to c.

    Attributes
    ----------
    cuts : tuple of (cut, cut)
        For each product, which part of x's and y's chunk it takes.
    sizes : tuple of (shape, shape)
        Of these chunks, as far as they are known.
    dropped : tuple of int
        Axes of the product, counted from the end, that vectors do not have.
    folds : bool
        y has no batch: all rows of x are multiplied in one product.
    beta : scalar
        What is added is multiplied by it.
    """

    cuts: tuple[tuple[Cut, Cut], ...]
    sizes: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    dropped: tuple[int, ...]
    folds: bool
    beta: Any

    def __call__(self, work: Work, added: Any, left: Sequence[Any], right: Sequence[Any]) -> Any:
        """Return ``alpha sum(left @ right) + beta added``, accumulated in one new array."""
        out, beta, kept = None, self.beta, ()
        for cuts, sizes, x, y in zip(self.cuts, self.sizes, left, right, strict=True):
            a, b = work.chunk("x", opened(x), sizes[0]), work.chunk("y", opened(y), sizes[1])
            a = (a[None] if -2 in self.dropped else a)[cuts[0]]
            b = (b[:, None] if -1 in self.dropped else b)[cuts[1]]
            shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
            if a.shape[-1] != b.shape[-2] or (out is not None and out.shape != shape):
                raise ValueError(f"chunks of x and y, {a.shape} and {b.shape}, do not fit together")
            if out is None:
                out = family_of(a=a).empty(shape, of(work.dtype), (a,))
                axes = (i for i in range(-len(shape), 0) if i not in self.dropped)
                kept = tuple(shape[i] for i in axes)
                if added is not None:
                    added = work.chunk("c", added, kept).reshape(shape)
            self._add(work, a, b, added, out, beta)
            added, beta = out, 1
            del a, b  # before the next chunks are read
        assert out is not None  # every step has a product
        return out.reshape(kept)

    def _add(self, work: Work, a: Any, b: Any, c: Any, out: Any, beta: Any) -> None:
        """Write ``alpha a @ b + beta c`` to `out`."""
        batch = out.shape[:-2]
        if self.folds:
            batch = ()
            a, c, out = (x if x is None else x.reshape(-1, x.shape[-1]) for x in (a, c, out))
        if 0 in out.shape:
            return
        if a.shape[-1] == 0:
            out[...] = 0 if c is None else beta * c
            return
        plan = work.plan(out.shape[-2], out.shape[-1], a.shape[-1], c is not None)
        if batch:
            a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
            if c is None and _in_one_call(plan, work, a, b, out):
                return
        for at in np.ndindex(*batch):
            product(plan, work, a[at], b[at], None if c is None else c[at], out[at], beta)


def _in_one_call(plan: Plan | None, work: Work, a: Any, b: Any, out: Any) -> bool:
    """Multiply all matrices of a batch by one call, if there is one."""
    if plan is None or plan.scheme is not None:
        return False
    if plan.backend.is_library and work.alpha == 1 and plan.problem.operand.arithmetic is None:
        how: Any = {"scheme": "classical", "backend": plan.option.backend, "threads": plan.threads}
        falcon.matmul(a, b, out=out, **how)
        return True
    return plan.backend.execute_batch(plan, a, b, out, alpha=work.alpha)


def product(plan: Plan | None, work: Work, a: Any, b: Any, c: Any, out: Any, beta: Any) -> None:
    """Write ``alpha a @ b + beta c`` to `out`, as planned, or by the options of a GPU's arrays."""
    if plan is None:
        beta = 0 if c is None else beta
        falcon.gemm(a, b, c, alpha=work.alpha, beta=beta, out=out, **work.options)
        return
    plan.execute(a, b, c, out, alpha=work.alpha, beta=beta)


def total(parts: Sequence[Any]) -> Any:
    """Return the sum of arrays, as a new one."""
    out = parts[0] + parts[1]
    for x in parts[2:]:
        out += x
    return out
