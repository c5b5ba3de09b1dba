"""Backend "numpy": any scheme, with any nesting, on top of NumPy's own BLAS; always available.

A problem whose workspace would pass the limit is cut into chunks of M, N and K that are multiplied
in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from falcon._core.arrays import Host
from falcon._core.dtypes import DType
from falcon._core.model import of_triangle, seconds
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import Policy, host_policy
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon._tools import threads
from falcon._tools.cpus import kept_bytes
from falcon._tools.locks import importing
from falcon.schemes import Scheme

from .classical import classical_workspace, finish_bytes
from .lcma import Stages
from .norms import measure_norms
from .rates import blas_name, held, measure
from .runner import NumpyRunner
from .threads import limited, numpy_blas

# Time of np.matmul(x.T, x), which calls syrk and copies its triangle, over that of a general
# product of the same sizes: 0.56 to 0.73 (float32, float64; Zen 3 and 5).
_SYRK = 0.62


class NumpyBackend(Host):
    """See the module's docstring; `falcon._core.plan.Backend` is the interface."""

    name = "numpy"
    is_library = True
    rates_type = Rates

    @property
    def rest(self) -> float:
        """Threads of OpenBLAS spin after a call, unless they are falcon's."""
        from falcon._tools.timing import REST_SECONDS

        return 0.0 if threads.are_shared else REST_SECONDS

    def why_unavailable(self) -> str | None:
        """NumPy is a dependency: always available."""
        return None

    def why_not(self, problem: Problem, compute_type: DType | None = None) -> str | None:
        """NumPy multiplies everything, in the type of the operands."""
        if problem.is_wide:
            return f"NumPy multiplies {problem.operand} to {problem.operand}, not {problem.result}"
        return None if compute_type is None else f"NumPy has no kernels for {compute_type}"

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, compute_type: DType | None = None
    ) -> str | None:
        """LCMAs run only if sums of elements are as precise as sums of products."""
        row, reason = problem.operand, self.why_not(problem, compute_type)
        if reason is None and row is not problem.accumulator:
            return f"sums of {row} would be rounded to {row} before they are multiplied"
        return reason

    def policy(self, problem: Problem) -> Policy:
        """Return that of all backends for host memory; integers have no fast kernels here."""
        return host_policy(problem, has_kernels=problem.operand.has_blas)

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Scheme | None],
        limit: int | None,
        compute_type: DType | None = None,
    ) -> list[Method]:
        options, finish = [], finish_bytes(problem)
        for scheme in schemes:
            if scheme is None:
                whole = (problem.M, problem.N, problem.K)
                options.append(Method(self.name, None, whole, classical_workspace(problem, limit)))
                continue
            workspace_bytes = kept_bytes() if limit is None else limit - finish
            stages = Stages.within(problem, scheme, workspace_bytes)
            if stages is not None:
                again = 1, stages.cuts[0], stages.cuts[2]  # sums of A serve all chunks along N
                about: Any = {"again": again, "layout": stages}
                workspace = stages.workspace + finish
                options.append(Method(self.name, scheme, stages.chunks, workspace, **about))
        return options

    def runner(self, plan: Plan) -> NumpyRunner:
        """Return what runs a plan by np.matmul."""
        return NumpyRunner(plan)

    def reduce(
        self, terms: Any, outputs: Any, modulus: int, carry: int = 0, threads: int = 1
    ) -> None:
        """Reduce sums modulo p by NumPy's loops."""
        with importing():
            from .residues import modulo

        modulo(terms, outputs, modulus, carry, threads)

    def pack(self, b: np.ndarray, plan: Plan) -> np.ndarray:
        """Copy `b` for BLAS; its sums are formed again in every product."""
        return np.array(b, plan.problem.operand.right.numpy, order="C")

    def column_norms(self, b: np.ndarray, plan: Plan) -> tuple[np.ndarray, None]:
        """Return the squared 2-norms of the columns of `b`."""
        squares = np.empty(b.shape[1])
        measure_norms(b, 1, squares, squares, None)
        return squares, None

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return the method of the packed scheme."""
        options = self.candidates(problem, (packed.scheme,), limit)
        return (options or self.candidates(problem, (packed.scheme,), None))[0]

    def predicted(self, problem: Problem, method: Method, rates: Rates) -> Candidate:
        """Return the method with its seconds predicted by `falcon._core.model`."""
        times = seconds(problem, method, rates)
        return Candidate(method, of_triangle(times, _SYRK) if problem.symmetric else times)

    def kernels(self) -> str:
        """Return the kernels of NumPy's BLAS, where it is known which."""
        blas = numpy_blas()
        return "" if blas is None else str(blas.about.get("architecture", ""))

    def describe(self) -> dict[str, str]:
        """Return NumPy's BLAS, and what holds it back."""
        note = {"note": held()} if held() else {}
        return {"BLAS": blas_name(), **note}

    def release_workspace(self) -> None:
        """It keeps none."""

    def measure(
        self, operand: DType, threads: int, budget: float = 0.5, device: int | None = None
    ) -> Rates:
        """Time np.matmul, additions in cache, and Strassen's Combine A.

        The bandwidth is measured by combines into new memory, because on most machines the first
        touch of memory dominates their time.
        """
        with limited(threads):
            return measure(operand, budget)

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """Return what a stored measurement depends on: NumPy and its BLAS."""
        return {"numpy": np.__version__, "blas": blas_name()}
