"""`NumpyRunner`: one plan, run by np.matmul, and by the stages of a scheme."""

from __future__ import annotations

from typing import Any

import numpy as np

from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.runner import BoundRun, PlanRunner
from falcon._core.scaling import Scaling
from falcon._core.units import of_packed

from . import original
from .classical import classical, copied_bytes, finish_bytes, in_blocks, store
from .lcma import multiply
from .threads import exceeds, limited

# Multiplications of one matrix of a batch from which the matrices are multiplied one by one, as
# np.matmul looks for signals before a batch alone: Ctrl-C waits for one of them.
_LONG = 2**24


class NumpyRunner(PlanRunner):
    """See the module's docstring."""

    _plan: Plan

    def _bind_batch(self, a: Any, b: Any, out: Any, alpha: Any) -> BoundRun | None:
        problem, limit = self._plan.problem, self._plan.options.workspace_limit
        if alpha != 1 or problem.symmetric not in ("", "full") or not self._is_one_call(a, b):
            return None
        if problem.M * problem.N * problem.K > _LONG:
            return None
        direct = problem.a_direct and problem.b_direct
        if direct or not problem.symmetric or problem.is_exact:
            return self._call(a, b)
        if limit is not None and a.size * problem.operand.itemsize > limit:
            return None
        dtype, multiply = problem.operand.numpy, self._call(a, b)

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            twin = np.array(a, dtype, order="C")  # np.matmul's own copies would be two
            multiply(twin, twin.swapaxes(-1, -2), c, out)

        return run

    def _bind_matrices(
        self, a: Any, b: Any, c: Any, out: Any, alpha: Any, beta: Any, mirror: Any
    ) -> BoundRun:
        plan, problem = self._plan, self._plan.problem
        alone = alpha == 1 and c is None is mirror and isinstance(b, np.ndarray)
        alone = alone and self._is_one_call(a, b)
        # np.matmul copies what cannot be addressed as `classical` does, but not once for twins, and
        # loops over other strides.
        direct = alone and (not problem.symmetric or (problem.a_direct and problem.b_direct))
        direct = direct and (problem.a_direct or not problem.a_strided)
        direct = direct and (problem.b_direct or not problem.b_strided)
        direct = direct and not (problem.buffered and (problem.symmetric or problem.out_direct))
        fits = finish_bytes(problem) + copied_bytes(problem) <= plan.workspace
        return self._call(a, b) if direct and fits else self._product(alpha, beta, fits)

    def _is_one_call(self, a: Any, b: Any) -> bool:
        """Whether np.matmul multiplies operands as they stand, within the limit for its copies."""
        if self._plan.scheme is not None:
            return False
        dtype, limit = self._plan.problem.result, self._plan.options.workspace_limit
        copied = sum(x.size for x in (a, b) if x.dtype != dtype.numpy) * dtype.itemsize
        # NumPy selects its loops for types of other packages by the operands, not by dtype=.
        return not copied or (dtype.module == "numpy" and (limit is None or copied <= limit))

    def _call(self, a: Any, b: Any) -> BoundRun:
        """Return np.matmul, in the plan's type."""
        threads, kind = self._plan.threads, self._plan.problem.result.numpy
        multiply, cast = original.quiet_matmul, None if a.dtype == b.dtype == kind else kind

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            if exceeds(threads):
                with limited(threads):
                    multiply(a, b, out, cast)
            else:  # a microsecond less
                multiply(a, b, out, cast)

        return run

    def _product(self, alpha: Any, beta: Any, fits: bool) -> BoundRun:
        plan, problem = self._plan, self._plan.problem
        shape = problem.M, problem.N
        has_stages = plan.scheme is not None and 0 not in (*shape, problem.K)
        is_half = problem.accumulator is not problem.result  # sums would be rounded first

        def run(a: Any, b: Any, c: Any, out: Any, mirror: Any = None) -> None:
            right = b.payload if isinstance(b, PackedOperand) else b
            product = np.empty(shape, problem.result.numpy) if problem.buffered else out
            # As in BLAS, overflow and invalid operations show only in the result.
            with limited(problem.threads), np.errstate(all="ignore"):
                if is_half and (alpha != 1 or c is not None):
                    in_blocks(problem, a, right, product, alpha, c, beta)
                    c = None
                elif not (has_stages and multiply(plan, a, b, product, alpha)):
                    if isinstance(b, PackedOperand):
                        a = of_packed(b.units).times(a, 0, problem.operand.numpy)
                    classical(problem, a, right, product, copy=fits)
                    if isinstance(b, PackedOperand):
                        Scaling(columns=b.column_powers).undo(product)
                    if alpha != 1:
                        np.multiply(product, alpha, out=product)
                if problem.buffered:
                    store(product, c, beta, out, problem.symmetric)
                if mirror is not None:
                    np.copyto(mirror, out)

        return run
