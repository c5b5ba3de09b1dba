"""From a multiplication in core form to a plan (cached) and its execution by the plan's backend."""

from __future__ import annotations

import logging
from dataclasses import replace
from math import prod
from typing import Any, cast

import numpy as np

from falcon._backends import available_backends, get_backend
from falcon._core.backend import Backend
from falcon._core.locks import ForkLock
from falcon._core.options import Options, forced_isa, thread_count
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon.decision import select
from falcon.decision.machine import rates, revision
from falcon.decision.tuned import recall
from falcon.schemes.catalogue import generation

from .validate import arguments, is_direct, is_strided
from .verify import Freivalds, VerificationError

_log = logging.getLogger("falcon")

# Plans are small; a program that uses more shapes than this re-plans the oldest.
_CACHED_PLANS = 1024
_plans: dict[tuple, Plan] = {}
_plans_lock = ForkLock()


def requested_settings(*given: Any) -> Options:
    """Merge the arguments with the settings; a backend asked for by name must be there."""
    requested = arguments(*given)
    if requested.backend != "auto":
        get_backend(requested.backend)
    return requested


def multiply(
    a: np.ndarray,
    b: np.ndarray | None,
    c: np.ndarray | None,
    alpha: Any,
    beta: Any,
    out: np.ndarray,
    dtype: np.dtype,
    requested: Options,
    *,
    fresh: bool,
    packed: PackedOperand | None = None,
) -> None:
    """Multiply in core form: 2-D operands of fitting shapes, `out` writable and given.

    Where B comes packed, `b` is its source, or None if that was not kept.
    """
    if 0 in out.shape:
        return
    if a.shape[1] == 0 or alpha == 0:
        if c is None:
            out[...] = 0
        else:
            with np.errstate(all="ignore"):
                np.multiply(c, beta, out=out, dtype=dtype, casting="same_kind")
        return
    verified = requested.check == "verify"
    if verified and packed is not None:
        b = packed.needed_source("check='verify' takes b itself; keep the source, or use another")
    if verified and dtype.kind in "iu" and out.dtype.kind not in "iu":
        # Wrapped integers can only be compared as integers.
        product = np.empty(out.shape, dtype)
        requested = without(requested, out.shape, dtype)
        multiply(a, b, c, alpha, beta, product, dtype, requested, fresh=True)
        np.copyto(out, product, casting="same_kind")
        return
    problem = problem_of(a, b, c, out, dtype, requested, fresh=fresh, packed=packed is not None)
    if packed is None:
        chosen = plan_for(problem, requested)
    else:
        chosen = plan_packed(problem, packed, requested)
    test = Freivalds(a, cast(np.ndarray, b), c, alpha, beta, dtype=dtype) if verified else None
    right = cast(np.ndarray, b) if packed is None else packed
    chosen.backend.execute(chosen, a, right, c, out, alpha=alpha, beta=beta)
    if test is None:
        return
    outcome = test.check(out, chosen.growth)
    if not outcome:
        raise VerificationError(
            f"the product of {chosen.problem} by {chosen.option.label} failed Freivalds' check: "
            f"residual {outcome.residual:.3g} > tolerance {outcome.tolerance:.3g}"
        )


def problem_of(
    a: np.ndarray,
    b: np.ndarray | None,
    c: np.ndarray | None,
    out: np.ndarray,
    dtype: np.dtype,
    requested: Options,
    *,
    fresh: bool,
    packed: bool = False,
) -> Problem:
    """Describe a multiplication of these arrays; of a packed B, `b` is the source or None."""
    (M, K), N = a.shape, out.shape[1]
    b_by_rows = b_strided = b_direct = True
    if b is not None and not packed:
        b_strided, b_direct = is_strided(b, dtype), is_direct(b, dtype)
        b_by_rows = not b_strided or b.strides[1] == dtype.itemsize
    a_strided = is_strided(a, dtype)
    apart = not (overlap(out, a) or (b is not None and overlap(out, b)))
    out_direct = fresh or (is_strided(out, dtype) and apart)
    size = dtype.itemsize
    return Problem(
        M,
        N,
        K,
        dtype,
        buffered=c is not None or not out_direct or not (fresh or is_direct(out, dtype)),
        a_direct=is_direct(a, dtype),
        b_direct=b_direct,
        a_strided=a_strided,
        b_strided=b_strided,
        layout=(  # copies are by rows; a single column has a unit stride both ways
            a.strides[0] == size if a_strided else K == 1,
            b_by_rows,
            out_direct and out.strides[0] == size != out.strides[1],
        ),
        out_direct=out_direct,
        in_place=c is not None and overlap(out, c),
        packed=packed,
        threads=thread_count(requested.threads),
    )


def planning_state() -> tuple:
    """What plans depend on beside the problem and the settings: another state, other plans."""
    return generation(), revision(), forced_isa()


def plan_for(problem: Problem, requested: Options) -> Plan:
    """Return the cached plan of a problem, or make one."""
    key = (problem, requested, planning_state())
    found = _plans.get(key)
    if found is not None:
        return found
    made = _tuned(problem, requested) or select(
        problem, requested, _backends_for(problem, requested.backend), _rates
    )
    with _plans_lock.lock:
        while len(_plans) >= _CACHED_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = made
    if requested.verbose:
        _show(made)
    return made


def _tuned(problem: Problem, requested: Options) -> Plan | None:
    """Plan what `falcon.tune` found to be fastest, where that is wanted and keeps the limits."""
    if not requested.tuned or requested.scheme != "auto" or problem.device is not None:
        return None
    found = recall(problem, available_backends())
    if found is None or requested.backend not in ("auto", found[0]):
        return None
    name, scheme = found
    if scheme is not None and scheme.rms_growth > requested.max_growth and not problem.is_exact:
        return None
    wanted = replace(requested, scheme=scheme or "classical")
    try:
        made = select(problem, wanted, _backends_for(problem, name), _rates)
    except (ValueError, TypeError):  # the backend is not here, or a limit forbids the scheme
        return None
    guarded = made.scheme is not None and not problem.is_exact
    why = "measured as the fastest by falcon.tune"
    return replace(made, why=why, guarded=guarded, options=requested)


def _show(made: Plan) -> None:
    """Log a plan; where the program has set up no logging, to standard error."""
    if not _log.isEnabledFor(logging.INFO):
        _log.setLevel(logging.INFO)
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    _log.info("%s", made.explain())


def plan_packed(problem: Problem, packed: PackedOperand, requested: Options) -> Plan:
    """Plan for the scheme and the backend that B was packed for."""
    backend = get_backend(packed.backend)
    option = backend.packed_option(problem, packed, requested.workspace_limit)
    limit = requested.workspace_limit
    if limit is not None and option.workspace > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; {option.label} multiplication of {problem} with "
            f"the packed operand needs at least {option.workspace}"
        )
    guarded = packed.scales is not None
    return Plan(problem, backend, option, "as b was packed", guarded=guarded, options=requested)


def _backends_for(problem: Problem, name: str) -> list[Backend]:
    """Return the backends that may multiply the problem; several only for "auto"."""
    if name == "auto":
        return [x for x in available_backends() if x.why_not(problem) is None]
    backend = get_backend(name)
    reason = backend.why_not(problem)
    if reason is not None:
        raise TypeError(f"backend {name!r} cannot multiply {problem}: {reason}")
    return [backend]


def _rates(backend: Backend, problem: Problem) -> Any:
    return rates(backend, problem, available_backends() if problem.device is None else [backend])


def without(requested: Options, shape: tuple[int, ...], dtype: np.dtype) -> Options:
    """Take a buffer of that shape off the workspace limit."""
    limit = requested.workspace_limit
    if limit is None:
        return requested
    needed = prod(shape) * dtype.itemsize
    if needed > limit:
        raise ValueError(
            f"workspace_limit is {limit} bytes; out needs a buffer of {needed} (it overlaps an "
            "operand of a batch, or has another kind of dtype and is to be verified)"
        )
    return replace(requested, workspace_limit=limit - needed)


def overlap(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the arrays may share memory."""
    return bool(np.may_share_memory(x, y))  # bounds only: a false alarm costs a buffer
