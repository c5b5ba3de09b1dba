"""Complex matrices in GPU memory, multiplied as real ones.

A row of complex numbers is one of twice as many real ones, and so a product is

::

    rows of a @ B'    B', 2K x 2N:   re b   im b      of pairs of neighbours
                                    -im b   re b

All that real products do, schemes and parts included, complex ones do too. B' is formed for the
call, or packed; a, c and the result are used where they lie, if rows are contiguous. These are four
real products, as the definition says; by three, Inf would become NaN. Where neither a scheme nor
other arithmetic gains anything, the product is the library's own, of the complex matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dtypes import DType
from .matrix import Matrix, dense
from .method import Method
from .options import Options
from .packed import PackedOperand
from .plan import Backend, Plan
from .problem import Problem
from .rewrite import Part, Rewrite
from .runner import Runner

_ALIGNMENT = 256


def reals_of(problem: Problem) -> Problem:
    """Return the real product of complex matrices."""
    part = problem.operand.part
    about: dict[str, Any] = {"operand": part, "accumulator": part, "result": part}
    about["of_complex"] = True
    about |= {x: getattr(problem, x) for x in ("packed", "count", "reproducible", "squares")}
    return replace(
        problem.plain, N=2 * problem.N, K=2 * problem.K, layout=(False, True, False), **about
    )


def copies(problem: Problem, alpha: Any = 1, beta: Any = 0) -> tuple[int, ...]:
    """Return the bytes of copies of a, of B', of copies of c and of the result; 0: there is none.

    By complex factors copies are multiplied: by alpha that of a, if B' is packed.
    """
    M, N, K, packed = problem.M, problem.N, problem.K, problem.packed
    needed = (
        (M * K, not problem.a_direct or (packed and np.imag(alpha) != 0)),
        (2 * K * N, not packed),
        (M * N, problem.buffered or np.imag(beta) != 0),
        (M * N, not problem.out_direct),
    )
    item = problem.operand.itemsize
    return tuple(-(-n * item // _ALIGNMENT) * _ALIGNMENT if x else 0 for n, x in needed)


def as_reals(x: Matrix) -> Matrix:
    """View contiguous rows of complex numbers as real ones."""
    (rows, columns), part = x.shape, x.dtype.part
    assert part is not None and x.is_by_rows  # for type checkers
    return Matrix(x.pointer, (rows, 2 * columns), (2 * x.strides[0], 1), part, x.owner)


def turned(shape: tuple[int, ...], kind: DType, pointer: int) -> Matrix:
    """Return B' of a matrix, at an address."""
    assert kind.part is not None  # for type checkers
    return dense(pointer, (2 * shape[0], 2 * shape[1]), kind.part)


@dataclass(frozen=True)
class Reals(Rewrite):
    """Complex matrices by the real product, whose steps the backend puts among its own."""

    def runner(self, plan: Plan) -> Runner:
        """Return the backend's."""
        return plan.backend.runner(plan)

    def fitted(self, plan: Plan, problem: Problem) -> Plan:
        """Return the plan by the real product of a problem that lies otherwise."""
        return chosen(problem, plan.options, plan.parts[0].plan.fitted(reals_of(problem)))

    def pack(self, plan: Plan, b: Any) -> Any:
        """Return the backend's payload."""
        return plan.backend.pack(b, plan)


def plan(
    problem: Problem, options: Options, backends: Sequence[Backend], plan_for: Callable[..., Plan]
) -> Plan:
    """Plan complex matrices by the plan of the real product, which `plan_for` makes."""
    return _planned(problem, options, lambda x, how: plan_for(x, how, backends))


def plan_packed(
    problem: Problem, packed: PackedOperand, options: Options, plan_for: Callable[..., Plan]
) -> Plan:
    """The same for a packed B', by which `plan_for` plans the real product."""
    return _planned(problem, options, lambda x, how: plan_for(x, packed, how))


def _planned(
    problem: Problem, options: Options, planned: Callable[[Problem, Options], Plan]
) -> Plan:
    """Plan beside what copies take.

    Raises ValueError: the workspace limit is below what copies and the real product need.
    """
    real, limit, taken = reals_of(problem), options.workspace_limit, sum(copies(problem))
    if limit is None:
        return chosen(problem, options, planned(real, options))
    why = f"workspace_limit is {limit} bytes, and copies of complex operands take {taken}"
    try:
        left = replace(options, workspace_limit=max(limit - taken, 0))
        made = chosen(problem, options, planned(real, left))
    except ValueError as error:
        raise ValueError(f"{why}; beside them {error}") from None
    if made.workspace > limit:
        raise ValueError(why)
    return made


def chosen(problem: Problem, options: Options, made: Plan) -> Plan:
    """Return a plan of complex matrices, of which the library's own product is native."""
    if not (made.method.is_classical and made.method.compute_type is None):
        return composed(problem, options, made)
    (method,) = made.backend.candidates(problem, (None,), None)
    return _of(problem, options, made, method)


def composed(problem: Problem, options: Options, made: Plan) -> Plan:
    """Return a plan of complex matrices by that of the real product."""
    taken, method = copies(problem), made.method
    together = method.is_classical and method.splits == 1 and options.workspace_limit is None
    several = (problem.count - 1) * taken[1] * together  # B' of a batch in one call
    method = replace(method, workspace=made.workspace + sum(taken) + several)
    return _of(problem, options, made, method)


def _of(problem: Problem, options: Options, made: Plan, method: Method) -> Plan:
    about: dict[str, Any] = {"parts": (Part(made),), "rewrite": Reals()}
    return replace(made, problem=problem, options=options, method=method, **about)
