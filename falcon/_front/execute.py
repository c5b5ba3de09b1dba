"""Plan and run products in core form: 2-D operands of matching shapes.

::

    gemm, matmul --> Product --adapter--> Problem --planner--> Plan --> backend.execute
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import Any

from falcon._core import observe
from falcon._core.dtypes import DType, find
from falcon._core.options import Options, threads_of
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._numpy.threads import limited

from .adapters import Adapter
from .freivalds import Freivalds, VerificationError
from .planner import plan_for, plan_packed

_log = logging.getLogger("falcon")

# Problems whose products could not be verified, which has been logged; dropped at that number.
_reported: set[Problem] = set()
_MOST_REPORTED = 1024


@dataclass(frozen=True, slots=True)
class Product:
    """A product to compute: ``out = alpha a b + beta c``."""

    adapter: Adapter  # of all arrays
    a: Any
    b: Any  # if B is packed, its source, or its shape if the source was not kept
    c: Any  # None if beta is 0
    out: Any
    # The types in which a and b are multiplied, and of the result (`arithmetic`).
    operand: DType
    dtype: DType
    options: Options
    alpha: Any = 1
    beta: Any = 0
    fresh: bool = False  # `out` is new, made by `adapter.empty`: it overlaps no operand
    packed: PackedOperand | None = None
    # If B is A's transpose in the same memory: the part of C to write; see `Problem`.
    symmetric: str = ""


def multiply(x: Product) -> Plan | None:
    """Compute the product and write it to its `out`; return the plan, None if it needed none."""
    if 0 in x.out.shape:
        return None
    if x.a.shape[1] == 0 or x.alpha == 0:
        x.adapter.scale(x.c, x.beta, x.out, x.dtype)
        return None
    if x.options.check == "verify":
        with limited(threads_of(x.options)):  # Freivalds' test multiplies too
            return _verified(x)
    return _run(x)


def _run(x: Product) -> Plan:
    """Plan and execute."""
    plan, operands = _planned(x)
    start = perf_counter()
    plan.execute(*operands, alpha=x.alpha, beta=x.beta)
    for told in observe.observers:
        told(plan, perf_counter() - start)
    return plan


def _planned(x: Product) -> tuple[Plan, tuple[Any, Any, Any, Any]]:
    """Return the plan of a product, and its operands as the backend takes them."""
    adapter, packed = x.adapter, x.packed
    a, out = adapter.operand(x.a), adapter.operand(x.out)
    b: Any = x.b if isinstance(x.b, tuple) else adapter.operand(x.b)
    c = None if x.c is None else adapter.operand(x.c)
    target = None if x.fresh else out
    about: dict[str, Any] = {"packed": True} if packed is not None else {"symmetric": x.symmetric}
    problem = adapter.problem(a, b, c, target, x.operand, x.dtype, x.options, **about)
    if packed is None:
        plan = plan_for(problem, x.options)
    else:
        plan, b = plan_packed(problem, packed, x.options), packed
    return plan, (a, b, c, out)


def _verified(x: Product) -> Plan:
    """Multiply, and test the result by Freivalds' check."""
    dtype, out = x.dtype, x.out
    target = find(out.dtype)
    if dtype.is_exact and not (target is not None and target.is_exact):
        # Wrapped integers can be tested only before they are converted to floats.
        options = without(x.options, out.shape, dtype)
        product = x.adapter.empty(out.shape, dtype)
        plan = _verified(replace(x, out=product, options=options, fresh=True))
        x.adapter.copy(product, out)
        return plan
    b = x.b
    if x.packed is not None:
        b = x.packed.needed_source("check='verify' takes b itself; keep it, or use another check")
    uneven = _planned(x)[0].is_uneven
    test = Freivalds(x.a, b, x.c, x.alpha, x.beta, dtype=dtype, uneven=uneven)
    plan = _run(x)
    outcome = test.check(out, plan.growth)
    if outcome.is_wrong:
        raise VerificationError(
            f"the product of {plan.problem} by {plan.option.label} failed Freivalds' check: "
            f"{outcome.why}; residual {outcome.residual:.3g} > tolerance {outcome.tolerance:.3g}"
        )
    if not outcome:
        _report(plan.problem, outcome.why)
    return plan


def _report(problem: Problem, why: str) -> None:
    """Log why a product could not be verified: a warning, once per problem."""
    level = logging.DEBUG if problem in _reported else logging.WARNING
    if len(_reported) >= _MOST_REPORTED:
        _reported.clear()
    _reported.add(problem)
    _log.log(level, "falcon: %s: %s", problem, why)


def without(options: Options, shape: tuple[int, ...], dtype: DType) -> Options:
    """Return the options with the workspace limit reduced by a buffer of that shape."""
    limit = options.workspace_limit
    if limit is None:
        return options
    needed = prod(shape) * dtype.itemsize
    if needed > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; a buffer of {needed} is needed (out overlaps an "
            "operand of a batch, is complex, is a triangle and overlaps c, or is a triangle or of "
            "another kind of dtype with check='verify')"
        )
    return replace(options, workspace_limit=limit - needed)
