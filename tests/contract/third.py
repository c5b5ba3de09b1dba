"""A third backend for host memory, of an afternoon: SciPy's BLAS, by the classical algorithm.

falcon does not know it: `BACKENDS` gets an entry while a test runs (the fixture `third`).
"""

from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from threadpoolctl import ThreadpoolController

from falcon._backends import LIBRARY
from falcon._core.arrays import Host
from falcon._core.fit import fastest
from falcon._core.model import seconds
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method
from falcon._core.policy import host_policy
from falcon._core.rates import Rates
from falcon._core.runner import BatchRunner, Runner
from falcon._core.symmetric import copy_triangle

GEMM = {"float32": "sgemm", "float64": "dgemm", "complex64": "cgemm", "complex128": "zgemm"}


@cache
def loaded():
    """SciPy's BLAS, and what sets its threads."""
    from scipy.linalg import blas

    return blas, ThreadpoolController()


class Gemm(Runner):
    """``C.T = B.T A.T``: SciPy's matrices are by columns."""

    def __init__(self, problem):
        self._problem, self._call = problem, getattr(loaded()[0], GEMM[problem.operand.name])

    def bind(self, a, b, c, out, alpha=1, beta=0, mirror=None):
        p, kind = self._problem, self._problem.operand.numpy
        if out.ndim > 2:
            return BatchRunner(self).bind(a, b, c, out, alpha, beta)

        def run(a, b, c, out, mirror=None):
            right = b.payload if isinstance(b, PackedOperand) else b
            x, y = (np.ascontiguousarray(m, kind) for m in (a, right))
            with loaded()[1].limit(limits=p.threads, user_api="blas"), np.errstate(all="ignore"):
                # SciPy refuses matrices without elements.
                product = self._call(alpha, y.T, x.T).T if x.size and y.size else np.zeros_like(out)
                if c is not None and beta != 0:
                    product += np.multiply(c, beta, dtype=kind)
                copy_triangle(product, out, p.symmetric)
                if mirror is not None:
                    np.copyto(mirror, out)

        return run


class ThirdBackend(Host):
    """See the module's docstring; what has nothing to do with a product is NumPy's."""

    name, is_library, rest, rates_type = "scipy", True, 0.0, Rates
    reduce, pack = LIBRARY.reduce, LIBRARY.pack
    column_norms, release_workspace = LIBRARY.column_norms, LIBRARY.release_workspace

    def why_unavailable(self):
        return None if find_spec("scipy") else "SciPy is not installed"

    def why_not(self, problem, compute_type=None):
        if compute_type is None and not problem.is_wide and problem.operand.name in GEMM:
            return None
        return (
            f"SciPy's BLAS does not multiply {compute_type or problem.operand} to {problem.result}"
        )

    def why_classical_only(self, problem, scheme=None, compute_type=None):
        return self.why_not(problem, compute_type) or "SciPy's BLAS knows no schemes"

    def policy(self, problem):
        return host_policy(problem)

    def candidates(self, problem, schemes, limit, compute_type=None):
        M, N, K = sizes = problem.M, problem.N, problem.K
        most = (M * K + K * N + 2 * M * N) * problem.operand.itemsize
        return [Method(self.name, None, sizes, most) for x in schemes if x is None]

    def packed_method(self, problem, packed, limit):
        return self.candidates(problem, (None,), limit)[0]

    def predicted(self, problem, method, rates):
        return Candidate(method, seconds(problem, method, rates))

    def runner(self, plan):
        return Gemm(plan.problem)

    def kernels(self):
        return ""

    def describe(self):
        return {"BLAS": "SciPy's"}

    def measure(self, operand, threads, budget=0.5, device=None):
        x, gemm = np.ones((384, 384), operand.numpy, "F"), getattr(loaded()[0], GEMM[operand.name])
        with loaded()[1].limit(limits=threads, user_api="blas"):
            return Rates(2 * 384**3 / fastest(lambda: gemm(1, x, x), 5), 1e9, 1e9)

    def identity(self, device=None, /):
        return {"scipy": version("scipy")}
