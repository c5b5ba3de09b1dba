"""``check="verify"``: a product of `execute` that is tested by Freivalds' check."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from falcon._core.dtypes import find
from falcon._core.ladder import coarser
from falcon._core.observe import warn_caller
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem

from .buffers import without
from .freivalds import Freivalds, Verification, VerificationError

_log = logging.getLogger("falcon")

# Problems whose products could not be verified, of which a warning told; dropped at that number.
_reported: set[Problem] = set()
_MOST_REPORTED = 1024


def verified(x: Any, run: Callable[[Any, Plan], Any]) -> Plan:
    """Multiply a product by `run`, and test the result by Freivalds' check."""
    dtype, out = x.dtype, x.out
    target = find(out.dtype)
    if dtype.is_exact and not (target is not None and target.is_exact):
        # Wrapped integers can be tested only before they are converted to floats.
        options = without(x.options, out.shape, dtype)
        product = x.adapter.empty(out.shape, dtype)
        plan = verified(replace(x, out=product, options=options), run)
        x.adapter.copy(product, out)
        return plan
    b = x.b
    if isinstance(x.packed, PackedOperand):
        b = x.packed.needed_source("check='verify' takes b itself; keep it, or use another check")
    plan = x.plan
    p = x.options.one_modulus
    about: dict[str, Any] = {"dtype": dtype, "uneven": plan.is_uneven, "modulus": p}
    test = Freivalds(x.a, b, x.c, x.alpha, x.beta, **about)
    run(x, plan)
    outcome = test.check(out, plan.growth * coarser(plan))
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
    warn_caller(f"check='verify' of {problem}: {why}")
