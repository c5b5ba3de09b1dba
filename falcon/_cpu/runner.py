"""`CpuRunner`: one plan, run by the engine.

The C engine does everything in one call: sums of A and B straight into packed panels, products and
C updates on chip, alpha and beta. The runner converts what the engine cannot read, takes the
workspace, and falls back to the classical algorithm where a value is not finite.
"""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from falcon._core.centring import may_centre
from falcon._core.dtypes import DType
from falcon._core.packed import PackedOperand, Weighted
from falcon._core.plan import Plan
from falcon._core.runner import BoundRun, PlanRunner
from falcon._core.scaling import UNSCALED, Scaling
from falcon._core.units import NONE

from . import _core, blocking, pool, share
from .norms import multiplied, of_engine, plain_limits, sampled_units, scaling_of
from .operands import copied, image, load, needs_buffer, readable, store

# Of alpha, for kernels of fewer bits than the elements have: products are at least 2^-100.
_LEAST_FACTOR = 2.0**-20


def _zeros(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
    """Write the sum of no products; `beta` c alone never comes to a runner."""
    for x in (out, mirror):
        if x is not None:
            x[...] = 0


class CpuRunner(PlanRunner):
    """See the module's docstring."""

    _plan: Plan

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        plan, problem = self._plan, self._plan.problem
        if problem.K == 0 and problem.operand.is_complex:  # as real products that is no shape
            return _zeros
        left, layout = problem.operand.left, plan.method.layout
        numbers = scalar(alpha, left), scalar(0 if c is None else beta, left)
        if not plan.workspace and plan.method.is_plain and c is None and not problem.symmetric:
            glances, number = plan.threads > 1, numbers[0]

            def run_small(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
                if glances:
                    share.glance()
                _core.gemm(layout, a, b, out, number)
                if mirror is not None:
                    np.copyto(mirror, out)

            return run_small
        return self._product(numbers)

    def _product(self, numbers: tuple[Any, Any]) -> BoundRun:
        """Return what multiplies by a workspace."""
        plan, problem, method = self._plan, self._plan.problem, self._plan.method
        left, right, layout = problem.operand.left, problem.operand.right, method.layout
        copies, buffered = copied(problem), needs_buffer(problem, plan.scheme, plan.operand)
        nbytes, kept, limit = layout.nbytes, pool.shared(), plan.options.workspace_limit
        # Threads must not decide whether operands are centred: the room of one is judged, and what
        # means leave of a limit is then known.
        room = nbytes if layout.scheme is None else layout.least
        most = limit - (plan.workspace - nbytes) if limit and may_centre(plan) else inf
        may_fail = layout.scheme is not None and plan.options.check != "none"
        reports = may_fail or method.arithmetic is not None
        measures = plan.scheme is not None or method.arithmetic is not None
        limits = plain_limits(plan)
        # Kernels of fewer bits would lose what such a factor makes small.
        is_small = plan.operand.converts and 0 < abs(numbers[0]) < _LEAST_FACTOR
        more = layout.plain_nbytes if limits else 0

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> bool:
            if plan.threads > 1:
                share.glance()
            b, weights = b if type(b) is Weighted else (b, None)
            is_packed = type(b) is PackedOperand
            packed, source = (b.payload, None) if is_packed else (None, b)
            a = readable(a, left) if copies[0] else a
            source = readable(b, right) if copies[1] else source
            target = np.empty((problem.M, problem.N), problem.result.numpy) if buffered else out
            given: Any = b if is_packed else source
            asks = measures or is_packed  # else no line of an operand is looked at
            units = sampled_units(plan, a, given) if asks and not limits else NONE
            workspace = kept.take((nbytes if most == inf else room) + more)
            how: dict[str, Any] = {"workspace": workspace, "weights": weights}
            how["mirror"] = image(problem, target, None if buffered else mirror)
            try:
                is_finite, is_refused = None, False
                if limits and not is_small:
                    load(c, target, problem)
                    call = partial(_core.gemm, layout, a, source, target, *numbers, **how)
                    is_finite, units = multiplied(plan, a, given, limits, call)
                if is_finite is None:
                    scaling: Scaling | None = UNSCALED
                    if asks and not is_small:
                        known = (workspace, room, most - room, (c, *numbers), units)
                        scaling = scaling_of(plan, a, given, *known)
                    is_refused = is_small or scaling is None
                    if scaling is not None and not is_small:
                        load(c, target, problem)
                        means = scaling.centring
                        fitting = layout if means is None else layout.within(most - means.nbytes)
                        is_finite = _core.gemm(
                            *(fitting, a, source, target, *numbers),
                            row_scales=scaling.rows,
                            column_scales=scaling.columns,
                            centring=means,
                            units=of_engine(plan, scaling.units),
                            packed=packed,
                            report=reports,
                            **how,
                        )
                is_again = bool(is_refused or (reports and is_finite is False))
                if is_again:
                    # Norms that cannot be measured, NaN or Inf in the input, a sum that overflowed:
                    # return what the classical algorithm returns.
                    again = b.source_to_redo(is_refused) if is_packed else b
                    load(c, target, problem)
                    classical = blocking.to_redo(problem, layout, buffered, plan.operand)
                    _core.gemm(classical, a, readable(again, right), target, *numbers, **how)
            finally:
                kept.give(workspace, nbytes + more)
            if buffered:
                for copy in (out,) if mirror is None else (out, mirror):
                    store(target, copy, problem)
            return is_again

        return run

    def _bind_batch(self, a: Any, b: Any, out: Any, alpha: Any) -> BoundRun | None:
        plan, p = self._plan, self._plan.problem
        copies = (*copied(p), not p.out_direct)
        if not plan.method.is_plain or (any(copies) and plan.options.workspace_limit is not None):
            return None
        kinds, part = (p.operand.left, p.operand.right, p.result), p.operand.part
        layout, scale = plan.method.layout, scalar(alpha, p.operand)
        if part is not None:  # complex matrices
            layout = blocking.of_complex_batch(p)
            by_rows = all(x.strides[-1] == x.itemsize for x in (a, out))
            if alpha != 1 or p.symmetric or any(copies) or not (by_rows and layout.is_direct):
                return None
        batch, nbytes, kept = out.shape[:-2], layout.nbytes, pool.shared()
        steps = tuple(
            _steps(x, kind.itemsize if is_copied else 0, len(batch))
            for x, kind, is_copied in zip((a, b, out), kinds, copies, strict=True)
        )
        at_a, at_b, at_out = ((0,) * (x.ndim - 2) for x in (a, b, out))

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            if plan.threads > 1:
                share.glance()
            a = readable(a, kinds[0]) if copies[0] else a
            b = readable(b, kinds[1]) if copies[1] else b
            target = np.empty(out.shape, kinds[2].numpy) if copies[2] else out
            left, first = a[at_a], target[at_out]
            if part is not None:
                left, first = left.view(part.numpy), first.view(part.numpy)
            workspace = kept.take(nbytes)
            try:
                _core.gemm_batch(
                    *(layout, left, b[at_b], first, batch, steps, scale),
                    workspace=workspace,
                    mirror=image(p, first, None),
                )
            finally:
                kept.give(workspace, nbytes)
            if copies[2]:
                store(target, out, p)

        return run


def _steps(x: np.ndarray, itemsize: int, axes: int) -> tuple[int, ...]:
    """Return the bytes between the matrices of a batch along so many axes, to which it broadcasts.

    `itemsize`: of its copy by rows; 0: it is read as it is.
    """
    strides = list(x.strides)
    if itemsize:
        strides = [itemsize * prod(x.shape[at + 1 :]) for at in range(x.ndim)]
    own = [0 if n == 1 else step for n, step in zip(x.shape[:-2], strides, strict=False)]
    return (0,) * (axes - len(own)) + tuple(own)


def scalar(x: Any, operand: DType) -> Any:
    """Return alpha or beta as the engine takes it: integers as signed ones, all 64 bits."""
    if operand.is_exact:
        return (int(x) + 2**63) % 2**64 - 2**63
    return complex(x) if operand.is_complex else float(x)
