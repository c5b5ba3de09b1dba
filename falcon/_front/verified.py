"""``check="verify"``: a product of `execute` that is tested by Freivalds' check."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from falcon._backends import ENGINE
from falcon._core.dtypes import find
from falcon._core.ladder import coarser
from falcon._core.observe import warn_caller
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem

from . import checksums
from .buffers import without
from .freivalds import Freivalds, Verification, VerificationError

_log = logging.getLogger("falcon")

# Problems whose products could not be verified, of which a warning told; dropped at that number.
_reported: set[Problem] = set()
_MOST_REPORTED = 1024
_FEW = 64  # rows that are multiplied again at once, and columns that are, whole


def verified(x: Any, run: Callable[[Any, Plan], Any]) -> Plan:
    """Multiply a product by `run`, and test the result: by checksums, or by Freivalds' check."""
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
    plan, whole, growth = x.plan, replace(x, b=b), x.plan.growth * coarser(x.plan)
    p = x.options.one_modulus
    about: dict[str, Any] = {"dtype": dtype, "uneven": plan.is_uneven, "modulus": p}
    written = x.adapter.matrix(out)
    read = (x.adapter.matrix(y) for y in (x.a, b, x.c) if y is not None)
    is_apart = not any(written.overlaps(y) for y in read)  # operands stay what they are
    if is_apart:
        run(x, plan)
        if _has_checksums(whole, plan):
            return plan
    test = Freivalds(x.a, b, x.c, x.alpha, x.beta, **about)
    if not is_apart:
        run(x, plan)
    outcome = test.check(out, growth)
    if outcome.is_wrong and is_apart and p is None:
        c = None if x.c is None else x.c.T
        across = Freivalds(b.T, x.a.T, c, x.alpha, x.beta, **about)
        across.check(out.T, growth)
        rows = test.wrong if len(across.wrong) > _FEW else np.arange(len(out))
        if _again(whole, plan, rows, across.wrong):
            outcome = test.check(out, growth)
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


def _has_checksums(x: Any, plan: Plan) -> bool:
    """Whether all rows have the right checksums, once those that had not are made again."""
    rows = checksums.suspects(x, plan.growth * coarser(plan))
    if rows is not None and len(rows) and _again(x, plan, rows):
        rows = checksums.suspects(x, plan.growth * coarser(plan))
    return rows is not None and not len(rows)


def _again(x: Any, plan: Plan, rows: Any, columns: Any = None) -> bool:
    """Multiply some rows and columns again, by generic kernels on this thread.

    Entries of whole rows that differ by more than the bounds of both are replaced, and of known
    columns all; some of many rows tell the columns. A warning, logged, says so, and whether the
    kernel gives them again: else a core erred. Returns whether there are any.
    """
    are_many = columns is None and len(rows) > _FEW
    rows = rows[:_FEW] if are_many else rows
    part = np.ix_(rows, np.arange(x.out.shape[1]) if columns is None else columns)
    if not x.out[part].size:
        return False
    a, b = x.a[rows].astype(x.dtype.numpy), x.b[:, part[1][0]].astype(x.dtype.numpy)
    made = ENGINE.again(a, b)
    if made is None:
        return False
    with np.errstate(all="ignore"):
        added = 0 if x.c is None else x.beta * x.c[part]
        right, unit = x.alpha * made + added, x.dtype.unit_roundoff
        allowed: Any = 0
        if columns is None:
            bounds = abs(x.alpha) * plan.error_bound(x.a, x.b)[rows]
            allowed = 2 * bounds + 4 * unit * (abs(right) + abs(added))
        wrong = ~(abs(x.out[part] - right) <= allowed)
        if not wrong.any():
            return False
        if are_many:
            return _again(x, plan, np.arange(len(x.out)), np.flatnonzero(wrong.any(axis=0)))
        again, before = ENGINE.again(a, b, ENGINE.kernels()), x.out[part]
        is_again = abs(x.alpha * again + added - before) < abs(right - before) / 2
        x.out[part] = np.where(wrong, right, before)
    i, j = np.argwhere(wrong)[0]
    why = "a core may have erred (python -m falcon grade --cores)"
    why = f"kernels of {ENGINE.kernels()} err" if is_again[wrong].any() else why
    _log.warning(
        f"falcon: a wrong product of {plan.problem} by {plan.method.label} on backend "
        f"{plan.backend.name!r}: {wrong.sum()} entries, the first c[{part[0][i, 0]}, "
        f"{part[1][0, j]}], are made again by generic kernels; {why}"
    )
    return True


def _report(problem: Problem, why: str) -> None:
    """Warn that a product could not be verified, once per problem; the log has all of them."""
    _log.debug("falcon: %s: %s", problem, why)
    if problem in _reported:
        return
    if len(_reported) >= _MOST_REPORTED:
        _reported.clear()
    _reported.add(problem)
    warn_caller(f"check='verify' of {problem}: {why}")
