"""Plan and run products in core form: matrices, or batches of them, of matching shapes.

::

    gemm, matmul, gram --> Product --adapter--> Problem --planner--> Plan --> runner --> Bound
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, prod
from time import perf_counter
from typing import Any
from warnings import warn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from falcon._backends import host_engine
from falcon._core import observe
from falcon._core.dtypes import DType, find
from falcon._core.matrix import dense
from falcon._core.options import Options, threads_of
from falcon._core.packed import PackedOperand, Weighted
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.runner import Bound
from falcon._numpy.threads import limited

from .adapters import Adapter
from .freivalds import Freivalds, Verification, VerificationError
from .planner import plan_for, plan_packed

_log = logging.getLogger("falcon")

# Operations and sizes from which parts of a complex matrix, whose elements lie apart, are real
# products; below, a BLAS's complex product takes as long, or half (300^3: 0.98, 512^3: 1.33 of it).
_LEAST_PARTS, _SHORTEST_PART = 2e8, 128
# Problems whose products could not be verified, of which a warning told; dropped at that number.
_reported: set[Problem] = set()
_MOST_REPORTED = 1024


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
        known, (left, right) = self.adapter.matrix, (self.operand.left, self.operand.right)
        a = dense(0, self.a, left) if type(self.a) is tuple else known(self.a)
        b = dense(0, self.b, right) if type(self.b) is tuple else known(self.b)
        c, out = (None if x is None else known(x) for x in (self.c, self.out))
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

    def at(self, place: tuple[int, ...]) -> Product:
        """Return one product of a batch."""
        batch = self.out.shape[:-2]
        a, b = (self.adapter.broadcast(x, (*batch, *x.shape[-2:]))[place] for x in (self.a, self.b))
        c = None if self.c is None else self.c[place]
        return replace(self, a=a, b=b, c=c, out=self.out[place])


def multiply(x: Product) -> tuple[Plan, Bound] | None:
    """Compute the product, or those of a batch; return what did, None if that is not for others."""
    if 0 in x.out.shape:
        return None
    is_empty = x.a.shape[-1] == 0 or x.alpha == 0
    viewed = None if is_empty else _as_reals(x)
    if viewed is not None:
        part, scalars = x.operand.part, {"alpha": np.real(x.alpha), "beta": np.real(x.beta)}
        assert part is not None  # for type checkers
        arrays = dict(zip(("a", "b", "c", "out"), viewed(x.a, x.b, x.c, x.out), strict=True))
        done = multiply(replace(x, operand=part, dtype=part, **scalars, **arrays))
        if done is None:
            return None
        plan, run = done
        return plan, lambda a, b, c, out: run(*viewed(a, b, c, out))
    if is_empty or x.options.check == "verify":
        with limited(threads_of(x.options)):  # Freivalds' test multiplies too
            for at in np.ndindex(*x.out.shape[:-2]):
                one = x.at(at) if at else x
                _write_added(one) if is_empty else _verified(one)
        return None
    plan = x.plan
    return plan, _run(x, plan)


def _as_reals(x: Product) -> Callable[..., tuple[Any, ...]] | None:
    """Return how a, b, c and out are viewed for real products, which are half of the work.

    Of a complex and a real matrix, else None: rows of a complex b are those of a real matrix twice
    as wide; the parts of others are a batch of two.
    """
    if not (x.operand.is_complex and x.dtype is x.operand and x.adapter.device is None):
        return None
    if x.packed is not None or x.symmetric or np.imag(x.alpha) or np.imag(x.beta):
        return None
    if x.options.reproducible == "rows":  # sizes would decide
        return None
    left, right, *others = (y.dtype.kind == "c" for y in (x.a, x.b, x.c, x.out) if y is not None)
    if left == right or not all(others):
        return None
    some = [y for y in (x.b, x.c, x.out) if y is not None]
    if right and all(y.strides[-1] == y.itemsize and y.shape[-1] > 1 for y in some):
        return lambda a, b, c, out: (a, *map(_by_rows, (b, c, out)))
    sizes, engine = (*x.out.shape[-2:], x.a.shape[-1]), host_engine()
    if 2.0 * prod(sizes) < _LEAST_PARTS or min(sizes) < _SHORTEST_PART:
        return None
    is_slow = engine.is_library or engine.kernels() == "generic"
    if is_slow or x.options.backend not in ("auto", engine.name):
        return None  # a BLAS copies what has other strides
    written, *read = (x.adapter.matrix(y) for y in (x.out, x.a, x.b, x.c) if y is not None)
    if x.c is not None and read[-1].is_same(written):
        read.pop()
    if any(written.overlaps(y) for y in read):
        return None  # one part would be written before the other is read
    if left:
        return lambda a, b, c, out: (_parts(a, out.ndim), b, *(_parts(y) for y in (c, out)))
    return lambda a, b, c, out: (a, _parts(b, out.ndim), *(_parts(y) for y in (c, out)))


def _by_rows(x: Any) -> Any:
    return None if x is None else x.view(x.real.dtype)


def _parts(x: Any, ndim: int = 0) -> Any:
    """Return the real and the imaginary parts of an array, of so many axes, as two in one."""
    if x is None:
        return None
    x = x[(None,) * (ndim - x.ndim)]
    return as_strided(x.real, (2, *x.shape), (x.itemsize // 2, *x.strides))


def _write_added(x: Product) -> None:
    p = x.options.modulus
    if isinstance(p, int) and x.c is not None:
        engine, threads = host_engine(), threads_of(x.options)
        terms = [(x.c.copy(), x.beta, 0, 0)]
        engine.reduce(terms, [(x.out, 0)], p, threads=threads)
    else:
        x.adapter.scale(x.c, x.beta, x.out, x.dtype)


def _run(x: Product, plan: Plan) -> Bound:
    """Execute; return what did."""
    b = x.packed if isinstance(x.packed, PackedOperand) else x.b
    operands = x.a, b if x.weights is None else Weighted(b, x.weights), x.c, x.out
    run = plan.runner.bound(*operands, x.alpha, x.beta)
    start = perf_counter()
    run(*operands)
    seconds = perf_counter() - start
    for told in observe.observers:
        told(plan, seconds, plan.problem.count)
    return run


def _verified(x: Product) -> Plan:
    """Multiply, and test the result by Freivalds' check."""
    dtype, out = x.dtype, x.out
    target = find(out.dtype)
    if dtype.is_exact and not (target is not None and target.is_exact):
        # Wrapped integers can be tested only before they are converted to floats.
        options = without(x.options, out.shape, dtype)
        product = x.adapter.empty(out.shape, dtype)
        plan = _verified(replace(x, out=product, options=options))
        x.adapter.copy(product, out)
        return plan
    b = x.b
    if isinstance(x.packed, PackedOperand):
        b = x.packed.needed_source("check='verify' takes b itself; keep it, or use another check")
    plan = x.plan
    p = x.options.one_modulus
    about: dict[str, Any] = {"dtype": dtype, "uneven": plan.is_uneven, "modulus": p}
    test = Freivalds(x.a, b, x.c, x.alpha, x.beta, **about)
    _run(x, plan)
    outcome = test.check(out, plan.growth)
    if p is not None and not ((out >= 0) & (out < p)).all():
        outcome = Verification(False, inf, 0.0, f"wrong: an entry is not from 0 to {p - 1}")
    if outcome.is_wrong:
        raise VerificationError(
            f"the product of {plan.problem} by {plan.method.label} failed Freivalds' check: "
            f"{outcome.why}; residual {outcome.residual:.3g} > tolerance {outcome.tolerance:.3g}"
        )
    if not outcome:
        _report(plan.problem, outcome.why)
    return plan


def _report(problem: Problem, why: str) -> None:
    """Warn that a product could not be verified, once per problem; the log has all of them."""
    _log.debug("falcon: %s: %s", problem, why)
    if problem in _reported:
        return
    if len(_reported) >= _MOST_REPORTED:
        _reported.clear()
    _reported.add(problem)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("falcon."):
        level, frame = level + 1, frame.f_back  # to the caller's line
    warn(f"check='verify' of {problem}: {why}", RuntimeWarning, stacklevel=level)


def without(options: Options, shape: tuple[int, ...], dtype: DType) -> Options:
    """Return the options with the workspace limit reduced by a buffer of that shape."""
    limit = options.workspace_limit
    if limit is None:
        return options
    needed = prod(shape) * dtype.itemsize
    if needed > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; a buffer of {needed} is needed (x is centred, an "
            "operand is float8 or its result no float32, or out overlaps an operand of a batch, is "
            "complex, is a triangle and overlaps c, or is a triangle or of another kind of dtype "
            "with check='verify')"
        )
    return replace(options, workspace_limit=limit - needed)
