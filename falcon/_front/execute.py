"""Plan and run products in core form: 2-D operands of matching shapes.

::

    gemm, matmul, plan, pack --> Product --adapter--> Problem --planner--> Plan --> backend.execute
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from math import inf, prod
from time import perf_counter
from typing import Any

from falcon._core import observe
from falcon._core.dtypes import DType, find
from falcon._core.matrix import Matrix, dense
from falcon._core.options import Options, threads_of
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem, layout_fields
from falcon._numpy.threads import limited

from .adapters import Adapter
from .freivalds import Freivalds, Verification, VerificationError
from .modular import modulo
from .planner import plan_for, plan_packed

_log = logging.getLogger("falcon")

# Problems whose products could not be verified, which has been logged; dropped at that number.
_reported: set[Problem] = set()
_MOST_REPORTED = 1024
# Integers of so few products are computed in place, all of C: a triangle takes 2 to 10 times as
# long, as its operands are packed (Zen 4, 2 threads).
_FEW_PRODUCTS = 48**3


@dataclass(frozen=True, slots=True)
class Product:
    """A product to compute, or only to plan: ``out = alpha a b + beta c``."""

    adapter: Adapter  # of all arrays
    a: Any  # to plan, a shape may do
    b: Any  # if B is packed, its source, or its shape if the source was not kept
    c: Any  # None if beta is 0
    out: Any  # None to plan for a new array
    # The types in which a and b are multiplied, and of the result (`arithmetic`).
    operand: DType
    dtype: DType
    options: Options
    alpha: Any = 1
    beta: Any = 0
    packed: PackedOperand | bool | None = None  # True: B is to be packed
    # If B is A's transpose in the same memory: the part of C to write; see `Problem`.
    symmetric: str = ""

    def described(self) -> tuple[Problem, tuple[Any, Any, Any, Any]]:
        """Return the problem, and a, b, c and out as backends take them: on a GPU, as matrices."""
        known, (left, right) = self.adapter.matrix, (self.operand.left, self.operand.right)
        a = dense(0, self.a, left) if type(self.a) is tuple else known(self.a)
        b = dense(0, self.b, right) if type(self.b) is tuple else known(self.b)
        c = None if self.c is None else known(self.c)
        sizes = a.shape[0], b.shape[1], a.shape[1]
        out = dense(0, sizes[:2], self.dtype) if self.out is None else known(self.out)
        types, device = (self.operand, self.dtype), self.adapter.device
        about: dict[str, Any] = {"device": device, "packed": self.packed is not None}
        about["symmetric"] = self._part(a, b)
        about |= layout_fields(a, b, c, out, types, **about)
        problem = Problem.of(sizes, self.operand, self.options, result=self.dtype, **about)
        if device is None:
            return problem, (self.a, self.b, self.c, self.out)
        return problem, (a, b, c, out)

    def _part(self, a: Matrix, b: Matrix) -> str:
        """Return the part of C that is written if B is A's transpose; empty: it is none."""
        if self.adapter.device is not None:
            return ""  # all of C is computed there
        M, K = a.shape
        if self.operand.is_exact and self.options.modulus is None and M * M * K <= _FEW_PRODUCTS:
            return "" if self.symmetric == "full" else self.symmetric  # bits do not depend on it
        if self.symmetric or self.c is not None or self.packed:
            return self.symmetric
        # A scheme by name computes all of C.
        able = self.options.scheme in ("auto", "classical")
        able = able and self.options.modulus is None
        return "full" if able and a.shape[0] > 1 and a.is_transpose(b) else ""


def problem_of_sizes(
    sizes: tuple[int, int, int],
    operand: DType,
    options: Options,
    result: DType | None = None,
    device: int | None = None,
) -> Problem:
    """Describe a product of matrices by rows, written to a new array; `sizes`: M, N, K."""
    layout = sizes[2] == 1, True, False
    about: dict[str, Any] = {"a_strided": True, "b_strided": True, "layout": layout}
    about |= {"result": result or operand, "device": device}
    return Problem.of(sizes, operand, options, **about)


def multiply(x: Product) -> Plan | None:
    """Compute the product and write it to its `out`; return the plan, None if it needed none."""
    if 0 in x.out.shape:
        return None
    if x.a.shape[1] == 0 or x.alpha == 0:
        if x.options.modulus is not None and x.c is not None:
            modulo([x.c.copy()], [x.beta], [x.out], x.options.modulus)
        else:
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
    seconds = perf_counter() - start
    for told in observe.observers:
        told(plan, seconds, 1)
    return plan


def _planned(x: Product) -> tuple[Plan, tuple[Any, Any, Any, Any]]:
    """Return the plan of a product, and its operands as the backend takes them."""
    problem, (a, b, c, out) = x.described()
    if isinstance(x.packed, PackedOperand):
        return plan_packed(problem, x.packed, x.options), (a, x.packed, c, out)
    return plan_for(problem, x.options), (a, b, c, out)


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
    uneven = _planned(x)[0].is_uneven
    about: dict[str, Any] = {"dtype": dtype, "uneven": uneven, "modulus": x.options.modulus}
    test = Freivalds(x.a, b, x.c, x.alpha, x.beta, **about)
    plan = _run(x)
    outcome = test.check(out, plan.growth)
    p = x.options.modulus
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
