"""How the engine cuts a problem: the blocking, passes and workspace of an option."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.plan import Option
from falcon._core.problem import Problem, has_few_rows

from . import _core, pool
from .extension import isa
from .operands import extra_bytes, needs_buffer, triangle
from .pool import largest_bytes, roomy_bytes
from .programs import engine_scheme
from .rounding import rounded_growth

# Bytes for which passes are cut where the machine must not matter.
_FIXED_ROOM = 2**28


def option(
    problem: Problem,
    scheme: Any,
    limit: int | None,
    operand: DType | None = None,
    packed: _core.PackedB | None = None,
) -> Option:
    """Cut the problem for a scheme, or for panels that are `packed` for it.

    `operand`: as which elements are multiplied, if not as those of their own type.

    This is the one place that sizes a call. The workspace may exceed the limit.
    """
    kernels = isa() if packed is None else packed.isa
    row, splits = operand or problem.operand, 1 if operand is None else operand.parts
    extra = extra_bytes(problem, scheme, row)
    a_by_columns, b_by_rows, c_by_columns = problem.layout
    tiling, nbytes = _core.plan(
        problem.M,
        problem.N,
        problem.K,
        row.engine,
        isa=kernels,
        scheme=engine_scheme(scheme) if packed is None else packed.scheme,
        threads=problem.threads,
        limit=_room(problem, limit, extra),
        packed=packed,
        triangle=triangle(problem),
        a_by_columns=a_by_columns,
        b_by_rows=b_by_rows,
        c_by_columns=c_by_columns and not needs_buffer(problem, scheme, splits),
        c_wide=problem.is_wide,
    )
    few_rows = (
        scheme is None
        and _reads_b_once(problem, row)
        and problem.b_direct
        and b_by_rows
        and not (c_by_columns or problem.packed)
    )
    # A is combined again for every pass over N if there are several over M; B never is, because
    # passes over M are the innermost ones.
    rows, columns, inner = tiling[:3]
    again = -(-problem.N // max(columns, 1)) if rows < problem.M else 1
    growth = None if problem.is_wide else rounded_growth(row, scheme, kernels)
    return Option(
        "cpu",
        scheme,
        (rows, columns, inner),
        nbytes + extra,
        operand=operand,
        fused_output=True,
        again=(again, 1, -(-problem.K // max(inner, 1))),
        tiling=(*tiling, nbytes),
        few_rows=few_rows,
        rounded_growth=growth,
    )


def _reads_b_once(problem: Problem, row: DType) -> bool:
    """Whether the engine reads B once and makes no copy of it in memory, for few rows of A."""
    sizes = problem.M, problem.N, problem.K, problem.operand.itemsize
    if not has_few_rows(*sizes):
        return False
    kernel = _core.kernel_info(row.engine, isa())
    return has_few_rows(*sizes, kernel["rows_in_place"], kernel["streams_rows"])


def roomier(problem: Problem, usual: Option) -> list[Option]:
    """Return the option with more workspace, where that saves passes."""
    most = roomy_bytes()
    if problem.reproducible:
        return []
    if usual.chunks == (problem.M, problem.N, problem.K) or most <= pool.shared().limit:
        return []
    found = option(problem, usual.scheme, most, usual.operand)
    saves = found.chunks != usual.chunks and found.workspace <= most
    return [replace(found, is_roomy=True)] if saves else []


def _room(problem: Problem, limit: int | None, extra: int) -> int:
    """Bytes that the engine may use: what the pool keeps, or what the caller leaves it."""
    if limit is None:
        return _FIXED_ROOM if problem.reproducible else pool.shared().limit
    return min(max(limit - extra, 1), largest_bytes())
