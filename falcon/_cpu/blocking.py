"""How the engine cuts a problem: blocking, passes, workspace and layout of an option."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from falcon._core.plan import Option, Plan
from falcon._core.problem import Problem, has_few_rows
from falcon.schemes import Scheme

from . import _core, pool
from .extension import isa
from .operands import extra_bytes, needs_buffer, triangle
from .pool import largest_bytes, roomy_bytes
from .programs import engine_scheme
from .rounding import rounded_growth


def option(problem: Problem, scheme: Scheme | None, limit: int | None) -> Option | None:
    """Cut the problem for a scheme; None where a scheme cannot keep the limit."""
    extra = extra_bytes(problem, scheme)
    tiling, nbytes = _core.plan(
        problem.M,
        problem.N,
        problem.K,
        problem.operand.engine,
        isa=isa(),
        scheme=engine_scheme(scheme),
        threads=problem.threads,
        limit=room(limit, extra),
        triangle=triangle(problem),
        **layout(problem, scheme),
    )
    workspace = nbytes + extra
    if scheme is not None and limit is not None and workspace > limit:
        return None
    _, b_by_rows, c_by_columns = problem.layout
    in_place = (
        scheme is None
        and _reads_b_once(problem)
        and problem.b_direct
        and b_by_rows
        and not (c_by_columns or problem.packed)
    )
    passes = cut(problem, tiling, workspace)
    is_wide = problem.is_wide and problem.operand.arithmetic is None
    growth = None if is_wide else rounded_growth(problem.operand, scheme, isa())
    return Option(
        "cpu", scheme, *passes, (*tiling, nbytes), in_place=in_place, rounded_growth=growth
    )


def _reads_b_once(problem: Problem) -> bool:
    """Whether the engine reads B once and makes no copy of it in memory, for few rows of A."""
    sizes = problem.M, problem.N, problem.K, problem.operand.itemsize
    if not has_few_rows(*sizes):
        return False
    kernel = _core.kernel_info(problem.operand.engine, isa())
    return has_few_rows(*sizes, kernel["rows_in_place"], kernel["rows_streamed"])


def roomier(problem: Problem, usual: Option) -> list[Option]:
    """Return the option with more workspace, where that saves passes."""
    most = roomy_bytes()
    if usual.chunks == (problem.M, problem.N, problem.K) or most <= pool.shared().limit:
        return []
    found = option(problem, usual.scheme, most)
    fewer = found is not None and found.chunks != usual.chunks
    return [replace(found, is_roomy=True)] if fewer and found is not None else []


def cut(
    problem: Problem, tiling: tuple[int, ...], workspace: int
) -> tuple[tuple[int, int, int], int, bool, tuple[int, int, int]]:
    """Chunks, workspace, and how often the engine combines A and B and updates C.

    A is combined again for every pass over N if there are several over M; B never is, because
    passes over M are the innermost ones.
    """
    rows, columns, inner = tiling[:3]
    again = -(-problem.N // max(columns, 1)) if rows < problem.M else 1
    return (rows, columns, inner), workspace, True, (again, 1, -(-problem.K // max(inner, 1)))


def needed(plan: Plan, a: np.ndarray, b: np.ndarray, target: np.ndarray) -> int:
    """Return the engine's workspace if the layout of the arrays is not the planned one; else 0.

    That happens only if a user calls a plan with other arrays.
    """
    problem, scheme = plan.problem, plan.scheme
    found = _core.layout(a, b, target)
    if found == layout(problem, scheme):
        return 0
    return _core.plan(
        problem.M,
        problem.N,
        problem.K,
        problem.operand.engine,
        isa=isa(),
        scheme=engine_scheme(scheme),
        threads=plan.threads,
        blocking=plan.option.tiling[:-1],
        triangle=triangle(problem),
        **found,
    )[1]


def layout(problem: Problem, scheme: Scheme | None) -> dict[str, bool]:
    """Return the flags of `_core.plan`; a buffer for the product is row-major."""
    a_by_columns, b_by_rows, c_by_columns = problem.layout
    return {
        "a_by_columns": a_by_columns,
        "b_by_rows": b_by_rows,
        "c_by_columns": c_by_columns and not needs_buffer(problem, scheme),
        "c_wide": problem.is_wide and problem.operand.arithmetic is None,
    }


def room(limit: int | None, extra: int) -> int:
    """Bytes that the engine may use: what the pool keeps, or what the caller leaves it."""
    if limit is None:
        return pool.shared().limit
    return min(max(limit - extra, 1), largest_bytes())
