"""What the tasks of a product run on a worker.

A task reads its inputs and returns a new array: dask may run it again, and others read its inputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.plan import Plan
from falcon._front.families import family_of

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
    """What all tasks of a product share: plans, made by the client, or options for a GPU's arrays.

    Attributes
    ----------
    plans : bytes
        A pickled dict of plans by (M, N, K, whether something is added); unpickled only after
        `version` was compared. Empty: `falcon.gemm` decides on the worker, by `options`.
    dtype : str
        Of the result.
    alpha, beta : scalar
    version : str
        The client's falcon.
    options : dict
    """

    plans: bytes
    dtype: Any
    alpha: Any = 1
    beta: Any = 0
    version: str = falcon.__version__
    options: dict[str, Any] = field(default_factory=dict)

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
        return _loaded(self.plans)[M, N, K, added] if self.plans else None


@cache
def _loaded(plans: bytes) -> dict[tuple, Plan]:
    found: dict[tuple, Plan] = pickle.loads(plans)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """One task: products along K that are added up, to what another task returned or to c.

    Attributes
    ----------
    shape : tuple of int
        Batch, rows, columns of the result.
    kept : tuple of int
        The shape without the axes that vectors do not have.
    cuts : tuple of (cut, cut)
        For each product, which part of x's and y's chunk it takes.
    vectors : (bool, bool)
        Whether x and y are vectors.
    folds : bool
        y has no batch: all rows of x are multiplied in one product.
    beta : scalar
        What is added is multiplied by it.
    """

    shape: tuple[int, ...]
    kept: tuple[int, ...]
    cuts: tuple[tuple[Cut, Cut], ...]
    vectors: tuple[bool, bool]
    folds: bool
    beta: Any

    def __call__(self, work: Work, added: Any, left: Sequence[Any], right: Sequence[Any]) -> Any:
        """Return ``alpha sum(left @ right) + beta added``, accumulated in one new array."""
        out, beta = None, self.beta
        added = None if added is None else added.reshape(self.shape)
        for cuts, x, y in zip(self.cuts, left, right, strict=True):
            a, b = opened(x), opened(y)
            a = (a[None] if self.vectors[0] else a)[cuts[0]]
            b = (b[:, None] if self.vectors[1] else b)[cuts[1]]
            self._check(a, b)
            if out is None:
                family = family_of(a=a)
                out = family.empty(self.shape, of(work.dtype), (a,))
            self._add(work, a, b, added, out, beta)
            added, beta = out, 1
            del a, b  # before the next chunks are read
        assert out is not None  # every step has a product
        return out.reshape(self.kept)

    def _check(self, a: Any, b: Any) -> None:
        rows, columns = self.shape[-2], self.shape[-1]
        if (a.shape[-2], b.shape[-1]) != (rows, columns) or a.shape[-1] != b.shape[-2]:
            raise ValueError(
                f"chunks of x and y have shapes {a.shape} and {b.shape}, which do not make one of "
                f"{self.shape}: an array's chunks are not of the sizes that it states"
            )

    def _add(self, work: Work, a: Any, b: Any, c: Any, out: Any, beta: Any) -> None:
        """Write ``alpha a @ b + beta c`` to `out`."""
        batch = self.shape[:-2]
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
    a, b = _converted(plan, a, b)
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
    plan.execute(*_converted(plan, a, b), c, out, alpha=work.alpha, beta=beta)


def _converted(plan: Plan, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return operands in the types of the plan."""
    kinds = plan.problem.operand.left.numpy, plan.problem.operand.right.numpy
    a, b = (x.astype(y, copy=False) for x, y in zip((a, b), kinds, strict=True))
    return a, b


def total(parts: Sequence[Any]) -> Any:
    """Return the sum of arrays, as a new one."""
    out = parts[0] + parts[1]
    for x in parts[2:]:
        out += x
    return out
