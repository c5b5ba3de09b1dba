"""Plan and run products in core form: matrices, or batches of them, of matching shapes.

::

    gemm, matmul, gram --> Product --adapter--> Problem --planner--> Plan --> runner --> BoundRun
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core import observe
from falcon._core.dtypes import DType
from falcon._core.matrix import dense, of_array
from falcon._core.options import Options, threads_of
from falcon._core.packed import PackedOperand, Weighted
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.runner import BoundRun
from falcon._numpy.threads import limited
from falcon._tools.locks import importing

from .adapters import Adapter
from .planner import plan_for, plan_packed
from .views import as_reals


@dataclass(frozen=True, slots=True)
class Product:
    """A product to compute, or only to plan: ``out = alpha a b + beta c``."""

    adapter: Adapter  # of all arrays
    a: Any  # to plan, a shape may do
    b: Any  # if B is packed, its source, or its shape if the source was not kept
    c: Any  # None if beta is 0
    out: Any  # None to plan for a new array; of a batch, a and b broadcast to it
    # The types in which a and b are multiplied, and of the result (`arithmetic`).
    operand: DType
    dtype: DType
    options: Options
    alpha: Any = 1
    beta: Any = 0
    packed: PackedOperand | bool | None = None  # True: B is to be packed
    # If B is A's transpose in the same memory: the part of C to write; see `Problem`.
    symmetric: str = ""
    weights: Any = None  # by which rows of b are multiplied; see `Weighted`

    @property
    def problem(self) -> Problem:
        """What is to be multiplied."""
        as_matrix, (left, right) = self.adapter.matrix, (self.operand.left, self.operand.right)
        a = dense(0, self.a, left) if type(self.a) is tuple else as_matrix(self.a)
        b = dense(0, self.b, right) if type(self.b) is tuple else as_matrix(self.b)
        c, out = (None if x is None else as_matrix(x) for x in (self.c, self.out))
        how: dict[str, Any] = {"packed": self.packed is not None, "symmetric": self.symmetric}
        how["weighted"] = self.weights is not None
        types, device = (self.operand, self.dtype), self.adapter.device
        return Problem.of(a, b, c, out, types, self.options, device=device, **how)

    @property
    def plan(self) -> Plan:
        """How it is multiplied."""
        if isinstance(self.packed, PackedOperand):
            return plan_packed(self.problem, self.packed, self.options)
        return plan_for(self.problem, self.options)

    def matrices(self) -> Iterator[Product]:
        """Yield the products of a batch, or the product itself."""
        batch = self.out.shape[:-2]
        if not batch:
            yield self
            return
        a, b = (self.adapter.broadcast(x, (*batch, *x.shape[-2:])) for x in (self.a, self.b))
        for at in np.ndindex(*batch):
            c = None if self.c is None else self.c[at]
            yield replace(self, a=a[at], b=b[at], c=c, out=self.out[at])


def multiply(x: Product) -> tuple[Plan, BoundRun] | None:
    """Compute the product, or those of a batch; return what did, None if that is not for others."""
    if 0 in x.out.shape:
        return None
    if x.options.overflow != "wrap" and x.dtype.is_exact and x.options.modulus is None:
        with importing():
            from .overflow import checked
        checked(x, multiply)
        return None
    is_empty = x.a.shape[-1] == 0 or x.alpha == 0
    viewed = None if is_empty else as_reals(x)
    if viewed is not None:
        part, scalars = x.operand.part, {"alpha": np.real(x.alpha), "beta": np.real(x.beta)}
        assert part is not None  # for type checkers
        arrays = dict(zip(("a", "b", "c", "out"), viewed(x.a, x.b, x.c, x.out), strict=True))
        done = multiply(replace(x, operand=part, dtype=part, **scalars, **arrays))
        if done is None:
            return None
        plan, run = done
        return plan, lambda a, b, c, out: run(*viewed(a, b, c, out))
    if is_empty:
        for one in x.matrices():
            _write_added(one)
        return None
    if x.options.check == "verify":
        with importing():
            from .verified import verified
        with limited(threads_of(x.options)):  # Freivalds' test multiplies too
            for one in x.matrices():
                verified(one, _run)
        return None
    plan = x.plan
    return plan, _run(x, plan)


def _write_added(x: Product) -> None:
    p = x.options.modulus
    if isinstance(p, int) and x.c is not None:
        engine, threads = host_engine(), threads_of(x.options)
        terms = [(x.c.copy(), x.beta, 0, 0)]
        engine.reduce(terms, [(x.out, 0)], p, threads=threads)
    else:
        x.adapter.scale(x.c, x.beta, x.out, x.dtype)


def _run(x: Product, plan: Plan) -> BoundRun:
    """Execute; return what did."""
    b = x.packed if isinstance(x.packed, PackedOperand) else x.b
    operands = x.a, b if x.weights is None else Weighted(b, x.weights), x.c, x.out
    run = plan.runner.bind(*operands, x.alpha, x.beta)
    start = perf_counter()
    run(*operands)
    seconds = perf_counter() - start
    for told in observe.observers:
        told(plan, seconds, plan.problem.count)
    return run


def run_planned(plan: Plan, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any) -> None:
    """Write ``alpha a @ b + beta c`` to out by a plan of such sizes, however NumPy's arrays lie."""
    p, added = plan.problem, None if c is None else of_array(c)
    types = p.operand, p.result
    lies = Problem.of(of_array(a), of_array(b), added, of_array(out), types, plan.options)
    plan.fitted(lies).runner(a, b, c, out, alpha, beta)
