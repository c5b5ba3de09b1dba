"""`CpuBackend`: falcon's own kernels behind the contract of `falcon._core.plan.Backend`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from falcon._core.arrays import Host
from falcon._core.centring import Totals
from falcon._core.dtypes import BY_FLOAT, ENGINE, INT64, DType, find, named
from falcon._core.model import of_triangle, seconds
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import SMALLEST_PLANNED, Policy, host_policy
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon._tools.locks import importing
from falcon.schemes import M3, M4, ComplexScheme, Scheme

from .extension import has_kernel, isa, why_unavailable
from .operands import is_aligned, readable

try:
    from . import _core, blocking, pool, rounding, share
    from .norms import most_parallel, norms_to_pack, roundings
    from .programs import complex_scheme
    from .runner import CpuRunner
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]

# To be raised when the speed of kernels or stages changes: stored measurements are then ignored.
_REVISION = "9"


class CpuBackend(Host):
    """See the module's docstring."""

    name = "cpu"
    is_library = False
    rest = 0.0
    rates_type = Rates

    def why_unavailable(self) -> str | None:
        """Return None if the extension was built and the requested instruction set runs."""
        return why_unavailable()

    def why_not(self, problem: Problem, compute_type: DType | None = None) -> str | None:
        """Return None for types that there are kernels for, else why it cannot run here."""
        compute_type = compute_type or problem.operand
        if compute_type.engine is None:
            known = " and ".join(x.name for x in ENGINE)
            return f"its kernels multiply {known}, not {compute_type}"
        if not has_kernel(compute_type):
            need = "AMX_BF16" if compute_type.splits > 1 else "an instruction for bfloat16"
            return f"kernels for {compute_type} need {need}; those in use are {isa()}"
        weighs = (
            compute_type.part is None and _core.kernel_info(compute_type.engine, isa())["weighs"]
        )
        if problem.weighted and not weighs:
            return f"kernels for {compute_type} multiply no steps of K by weights"
        return None

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, compute_type: DType | None = None
    ) -> str | None:
        """Return None unless the result is wider and a scheme's sums would not fit the panels."""
        reason = self.why_not(problem, compute_type)
        if reason is None and problem.is_wide:
            reason = rounding.why_classical_only(problem.operand, scheme, isa())
        return reason

    def policy(self, problem: Problem) -> Policy:
        """Return that of fast kernels: every type here has them."""
        return _with_panels(host_policy(problem))

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Any],
        limit: int | None,
        compute_type: DType | None = None,
    ) -> list[Method]:
        """Return a method per scheme that keeps the limit; None is the classical algorithm.

        Complex matrices: four real products, and three alone and within each scheme.
        """
        found = []
        if problem.operand.is_complex:
            schemes = (form for scheme in schemes for form in _complex_forms(scheme))
        for scheme in schemes:
            if scheme is not None and problem.is_wide and self.why_classical_only(problem, scheme):
                continue
            method = blocking.method(problem, scheme, limit, compute_type)
            if method.is_classical or limit is None or method.workspace <= limit:
                found.append(method)
            if scheme is not None and limit is None:
                found += blocking.with_more_workspace(problem, method)
        return found

    def runner(self, plan: Plan) -> CpuRunner:
        """Return what runs a plan by the engine."""
        return CpuRunner(plan)

    def reduce(
        self, terms: Any, outputs: Any, modulus: int, carry: int = 0, threads: int = 1
    ) -> None:
        """Reduce sums modulo p by the engine."""
        with importing():
            from .residues import modulo

        modulo(terms, outputs, modulus, carry, threads)

    def measured(self, x: np.ndarray, axis: int, threads: int, units: Any = None) -> Any:
        """Return the sums of squares of rows (axis 0) or columns (1), and of their elements.

        Of real floats, and of int64 as float64, multiplied by `units` first. None: of others.
        """
        row = find(x.dtype)
        kind = BY_FLOAT[row] if row is INT64 else row
        if kind is None or kind.engine is None or kind.is_complex or why_unavailable() is not None:
            return None
        is_able = kind is not row or not kind.is_exact
        if not is_able or not is_aligned(x) or not x.dtype.isnative:
            return None
        lines, steps = x.shape[axis], x.shape[1 - axis]
        squares, totals = np.empty(lines), np.empty((2, lines))
        how = axis, threads, isa(), kind.engine, np.array([0, steps]), totals, units
        _core.norms(x, squares, *how)
        return squares, totals.sum(axis=0)

    def roundings(self, x: np.ndarray, axis: int, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        """Return how many roundings sums of rows (axis 0) or columns (1) have: `ladder.py`.

        And their squared norms.
        """
        return roundings(x, axis, plan)

    def quantise(self, x: np.ndarray, to: np.ndarray, numbers: np.ndarray, threads: int) -> None:
        """Write lines as integers of 8 bits: `falcon._core.quantised`."""
        _core.quantise(x, to, numbers, threads, isa())

    def from_bytes(
        self, x: np.ndarray, rows: Any, columns: Any, c: np.ndarray, beta: float, threads: int
    ) -> None:
        """Write C = rows x columns + beta C."""
        _core.from_bytes(x, rows, columns, c, beta, threads, isa())

    def most_parallel(
        self, c: np.ndarray, squares: tuple[np.ndarray, np.ndarray], count: int, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and the columns of so many entries of C that are largest over the norms.

        `squares`: squared norms of the rows of A and of the columns of B. One entry of a row.
        """
        return most_parallel(c, squares, count, threads)

    def again(self, a: np.ndarray, b: np.ndarray, isa: str = "generic") -> np.ndarray | None:
        """Multiply on this thread by the kernels of an instruction set; None: there are none."""
        from .each import Kernel  # imported when first needed

        row = find(a.dtype)
        if row is None or row.engine is None or row.module != "numpy" or why_unavailable():
            return None
        return Kernel("", isa, row).product(a, b, row, None)

    def without_plans(self, library: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a function of a, b and out that multiplies small float arrays; of others None.

        `library`: one for those that it multiplies faster. None: no kernels are fast enough.
        """
        if why_unavailable() is not None or isa() == "generic":
            return None
        return _core.SmallProducts(isa(), SMALLEST_PLANNED / 2, library).multiply

    def pack(self, b: np.ndarray, plan: Plan) -> Any:
        """Combine B, or lay it out for the classical kernel."""
        layout = blocking.to_pack(plan.problem, plan.scheme, plan.method.compute_type)
        return _core.pack_b(layout, readable(b, plan.problem.operand.right))

    def column_norms(self, b: np.ndarray, plan: Plan) -> tuple[np.ndarray, Totals | None]:
        """Return the squared 2-norms of the columns of `b`, NaN: too uneven; and their sums."""
        layout = blocking.to_pack(plan.problem, plan.scheme, plan.method.compute_type)
        b = readable(b, plan.problem.operand.right)
        return norms_to_pack(b, plan, layout.segments)

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return how to multiply by a packed operand, whose passes over K and N are given."""
        operand = named(packed.arithmetic, problem.operand)
        return blocking.method(problem, packed.scheme, limit, operand, packed.payload)

    def predicted(self, problem: Problem, method: Method, rates: Rates) -> Candidate:
        """Return the method with its seconds by the common cost model."""
        # Rates of complex types are those of three real products.
        times = seconds(problem, method, rates.slower(4 / 3) if method.product == "4M" else rates)
        # Micro-tiles that the diagonal cuts are computed whole, and products of a complex form.
        if problem.symmetric and not problem.operand.is_complex:
            times = of_triangle(times, 0.5 + sum(rates.tile) / (2 * problem.M))
        return Candidate(method, times)

    def kernels(self) -> str:
        """Return the instruction set in use."""
        return isa()

    def describe(self) -> dict[str, str]:
        """Return the instruction sets, caches, threads and kernels."""
        if _core is None:
            return {}
        caches, kept = _core.cache_sizes(), pool.shared().nbytes
        most = max(kept, pool.shared().limit)
        sizes = ", ".join(f"{name} {caches[name] // 1024} KiB" for name in ("l1d", "l2", "l3"))
        found = {
            "instruction sets": ", ".join(_core.supported_isas()),
            **{f"{name} refused": why for name, why in _core.refused_isas().items()},
            "in use": isa() if why_unavailable() is None else "none",
            "caches": sizes,
            **share.states(),
            "kept workspace": f"{kept // 2**20} of at most {most // 2**20} MiB",
        }
        if found["in use"] != "none":
            for x in ENGINE:
                found[f"{x.engine} kernel"] = _core.kernel_info(x.engine, isa())["name"]
        return found

    def release_workspace(self) -> None:
        """Free the workspaces that are kept between calls."""
        if _core is not None:
            pool.shared().clear()

    def measure(
        self, operand: DType, threads: int, budget: float = 1.0, device: int | None = None
    ) -> Rates:
        """Measure the rates of the cost model."""
        with importing():
            from .measure import measure

        found = measure(self, operand.part or operand, threads, budget)
        return found if operand.part is None else found.slower(3)

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """What a stored measurement must agree with: instruction set, kernels, their state."""
        kernels = dict.fromkeys(_core.kernel_info(x.engine, isa())["name"] for x in ENGINE)
        return {"isa": isa(), "kernels": ", ".join(kernels), "revision": _REVISION}


@cache
def _with_panels(policy: Policy) -> Policy:
    return replace(policy, holds_panels=True)


def cache_bytes() -> dict[str, int]:
    """Bytes of the caches ``l1d``, ``l2`` (per core) and ``l3`` (as shared); empty if unknown."""
    if _core is None:
        return {}
    return {name: size for name, size in _core.cache_sizes().items() if name != "l3_sharers"}


def _complex_forms(scheme: Scheme | ComplexScheme | None) -> tuple[ComplexScheme, ...]:
    """Return the ways to multiply complex matrices by a scheme, the classical algorithm first."""
    if isinstance(scheme, ComplexScheme):
        return (scheme,)
    three = complex_scheme(M3, scheme)
    return (three,) if scheme is not None else (complex_scheme(M4, None), three)
