"""Layouts: how the engine cuts a problem, its passes and workspace."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from falcon._core.dtypes import DType
from falcon._core.plan import Method
from falcon._core.problem import Problem, has_few_rows
from falcon.schemes import M4

from . import _core, pool
from .extension import isa
from .operands import extra_bytes, needs_buffer, triangle
from .pool import large_bytes, largest_bytes
from .programs import complex_scheme, engine_scheme
from .rounding import rounded_growth

# Bytes for which passes are cut where the machine must not matter; and for panels of weighted
# operands, of which no copies are made: not slower than with more (20000 x 500 and 8192 x 2048).
_FIXED_ROOM, _WEIGHTED_ROOM = 2**28, 2**25
# Steps of K of a pass of a Gram matrix whose panels take more than that: C is small beside x, and
# new memory dear. 30000 x 1000: 57 MiB, not 458; 30000 x 300 with weights 0.5 of the time (Zen 3).
_DEEPEST = 4096


def method(
    problem: Problem,
    scheme: Any,
    limit: int | None,
    compute_type: DType | None = None,
    packed: _core.PackedB | None = None,
) -> Method:
    """Cut the problem for a scheme, or for panels that are `packed` for it.

    `compute_type`: as which elements are multiplied, if not as those of their own type.

    This is the one place that sizes a call. The workspace may exceed the limit.
    """
    kernels = isa() if packed is None else packed.isa
    row = compute_type or problem.operand
    extra = extra_bytes(problem, scheme, row)
    layout = _layout(
        problem,
        row.engine,
        isa=kernels,
        scheme=engine_scheme(scheme) if packed is None else packed.scheme,
        limit=_room(problem, limit, extra),
        packed=packed,
        is_buffered=needs_buffer(problem, scheme, row),
    )
    b_in_place = (
        layout.b_in_place
        and problem.b_direct
        and not (problem.layout[2] or problem.packed)
        and has_few_rows(problem.M, problem.N, problem.K, problem.operand.itemsize)
    )
    # A is combined again for every pass over N if there are several over M; B never is, because
    # passes over M are the innermost ones.
    rows, columns, inner = layout.chunks
    again = -(-problem.N // max(columns, 1)) if rows < problem.M else 1
    growth = None if problem.is_wide else rounded_growth(row, scheme, kernels)
    return Method(
        "cpu",
        scheme,
        (rows, columns, inner),
        layout.nbytes + extra,
        compute_type=compute_type,
        fused_output=True,
        again=(again, 1, -(-problem.K // max(inner, 1))),
        layout=layout,
        b_in_place=b_in_place,
        in_place=layout.in_place,
        is_tiny=layout.is_tiny,
        slice=0 if layout.is_direct else layout.blocking[3],
        rounded_growth=growth,
    )


@lru_cache(maxsize=256)
def to_redo(problem: Problem, failed: _core.Layout, is_buffered: bool, row: DType) -> _core.Layout:
    """Return the layout of the classical product, by the operands' own kernels, in as much room.

    `row`: as which they were multiplied; if that is more accurate, it stays.

    K is cut for the room that one thread needs: bits depend neither on threads nor on a larger
    workspace that the pool had.
    """
    scheme = complex_scheme(M4, None) if problem.operand.is_complex else None
    own = problem.operand
    found = _layout(
        problem,
        (row if row.rounded.unit_roundoff < own.rounded.unit_roundoff else own).engine,
        isa=isa(),
        scheme=engine_scheme(scheme),
        limit=max(failed.least, 1),
        is_buffered=is_buffered,
    )
    return found.within(failed.nbytes)


def to_pack(problem: Problem, scheme: Any, compute_type: DType | None) -> _core.Layout:
    """Return the layout by which B is packed: that of products with as many rows as columns."""
    return _core.plan(
        *(problem.N, problem.N, problem.K),
        problem.operand.right.engine if compute_type is None else compute_type.engine,
        isa=isa(),
        scheme=engine_scheme(scheme),
        threads=problem.threads,
        is_packed=True,
        one_order=problem.reproducible == "rows",
    )


def _layout(
    problem: Problem, engine: str | None, *, is_buffered: bool, **options: Any
) -> _core.Layout:
    """Work out how kernels for a type multiply the problem; C may be a buffer, by rows."""
    a_by_columns, b_by_rows, c_by_columns = problem.layout
    able = problem.symmetric and options["scheme"] is None and not problem.reproducible
    passes, panels = -(-problem.K // _DEEPEST), 2 * problem.M * problem.K * problem.operand.itemsize
    if able and passes > 1 and panels > _WEIGHTED_ROOM:
        options["blocking"] = (0, 0, -(-problem.K // passes), 0, 0, 0, 0, 0)
    return _core.plan(
        *(problem.M, problem.N, problem.K, engine),
        threads=problem.threads,
        triangle=triangle(problem),
        a_by_columns=a_by_columns,
        b_by_rows=b_by_rows,
        c_by_columns=c_by_columns and not is_buffered,
        c_wide=problem.is_wide,
        one_order=problem.reproducible == "rows",
        weighted=problem.weighted,
        **options,
    )


def of_complex_batch(problem: Problem) -> _core.Layout:
    """Return the layout of real products that are the complex ones: A by rows as real numbers.

    Row ``2k`` of a real B is row ``k`` of the complex one, row ``2k + 1`` that row times i.
    """
    sizes = problem.M, 2 * problem.N, 2 * problem.K
    how: dict[str, Any] = {"threads": problem.threads, "b_by_rows": problem.layout[1]}
    how["one_order"] = problem.reproducible == "rows"
    return _core.plan(*sizes, problem.operand.engine, isa=isa(), complex_b=True, **how)


def with_more_workspace(problem: Problem, usual: Method) -> list[Method]:
    """Return the method with more workspace, where that saves passes."""
    most = large_bytes()
    if problem.reproducible:
        return []
    if usual.chunks == (problem.M, problem.N, problem.K) or most <= pool.shared().limit:
        return []
    found = method(problem, usual.scheme, most, usual.compute_type)
    saves = found.chunks != usual.chunks and found.workspace <= most
    return [replace(found, large_workspace=True)] if saves else []


def _room(problem: Problem, limit: int | None, extra: int) -> int:
    """Bytes that the engine may use: what the pool keeps, or what the caller leaves it."""
    workspace_bytes = _FIXED_ROOM if problem.reproducible else pool.shared().limit
    if limit is not None:
        workspace_bytes = min(max(limit - extra, 1), largest_bytes())
    return min(workspace_bytes, _WEIGHTED_ROOM) if problem.weighted else workspace_bytes
