"""`CpuBackend`: falcon's own kernels behind the contract of `falcon._core.backend.Backend`.

The C engine does everything in one call: sums of A and B straight into packed panels, products and
C updates on chip, alpha and beta. This module chooses the instruction set and the workspace, and
falls back to the classical algorithm where a value is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.dtypes import BY_ARITHMETIC, ENGINE, DType
from falcon._core.model import of_triangle, seconds
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import (
    LARGEST_OF_BATCH,
    SMALLEST_PLANNED,
    Policy,
    has_own_kernels,
    host_policy,
    is_long_batch,
    may_be_in_place,
)
from falcon._core.problem import Problem, has_few_rows
from falcon._core.rates import Rates
from falcon.schemes import M3, M4, ComplexScheme, Scheme

from . import residues
from .extension import has_kernel, isa, why_unavailable
from .operands import (
    are_plain,
    image,
    is_aligned,
    load,
    needs_buffer,
    readable,
    store,
)

try:
    from . import _core, blocking, pool, rounding, share
    from .measure import measure
    from .norms import norms_to_pack, scaling_of
    from .programs import complex_scheme
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]

# To be raised when the speed of kernels or stages changes: stored measurements are then ignored.
_REVISION = "8"


class CpuBackend:
    """See the module's docstring."""

    name = "cpu"
    is_library = False
    rest = 0.0
    rates_type = Rates

    def why_unavailable(self) -> str | None:
        """Return None if the extension was built and the requested instruction set runs."""
        return why_unavailable()

    def why_not(self, problem: Problem, operand: DType | None = None) -> str | None:
        """Return None for types that there are kernels for, else why it cannot run here."""
        operand = operand or problem.operand
        if operand.engine is None:
            known = " and ".join(x.name for x in ENGINE)
            return f"its kernels multiply {known}, not {operand}"
        if not has_kernel(operand):
            return f"kernels for {operand} need AMX_BF16; those in use are {isa()}"
        return None

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, operand: DType | None = None
    ) -> str | None:
        """Return None unless the result is wider and a scheme's sums would not fit the panels."""
        reason = self.why_not(problem, operand)
        if reason is None and problem.is_wide:
            reason = rounding.why_classical_only(problem.operand, scheme, isa())
        return reason

    def policy(self, problem: Problem) -> Policy:
        """Return that of fast kernels: every type here has them."""
        return host_policy(problem)

    def beats_blas(self, problem: Problem, count: int = 1) -> bool:
        """Whether products are large enough, or many, or have few rows, and vector kernels run."""
        if isa() == "generic" or (problem.symmetric and problem.operand.is_complex):
            return False  # BLAS computes one triangle alone
        is_batch = count > 1 and problem.threads > 1
        if problem.operand.is_complex and (problem.layout[0] or problem.layout[2]):
            is_batch = False  # A and C are read as real matrices, whose rows are contiguous
        if is_batch and problem.flops <= LARGEST_OF_BATCH and is_long_batch(problem, count):
            return True
        sizes, operand = (problem.M, problem.N, problem.K), problem.operand
        if has_own_kernels(*sizes, problem.flops, is_complex=operand.is_complex):
            return True
        if problem.flops <= SMALLEST_PLANNED:
            is_other = count > 1 or problem.packed or operand.is_complex or problem.symmetric
            in_place = problem.a_strided and problem.b_strided and problem.out_direct
            return in_place and not is_other and blocking.method(problem, None, None).layout.is_tiny
        if may_be_in_place(problem) and blocking.method(problem, None, None).layout.in_place:
            return True
        few_rows = has_few_rows(*sizes, operand.itemsize)
        return few_rows and blocking.method(problem, None, None).b_in_place

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Any],
        limit: int | None,
        operand: DType | None = None,
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
            method = blocking.method(problem, scheme, limit, operand)
            if method.is_classical or limit is None or method.workspace <= limit:
                found.append(method)
            if scheme is not None and limit is None:
                found += blocking.with_more_workspace(problem, method)
        return found

    def execute(
        self,
        plan: Plan,
        a: np.ndarray,
        b: np.ndarray | PackedOperand,
        c: np.ndarray | None,
        out: np.ndarray,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        mirror: Any = None,
    ) -> None:
        problem, scheme = plan.problem, plan.scheme
        left, right = problem.operand.left, problem.operand.right
        is_split, layout = plan.method.arithmetic is not None, plan.method.layout
        if plan.threads > 1 and perf_counter() > share.next_look:
            share.look()
        is_tiny = c is None and mirror is None and _is_tiny(plan)
        if is_tiny and isinstance(b, np.ndarray) and are_plain(a, b, out):
            # A call of microseconds: what follows would take as long as the product.
            _core.gemm(layout, a, b, out, _scalar(alpha, left))
            return
        packed = b.payload if isinstance(b, PackedOperand) else None
        source = None if isinstance(b, PackedOperand) else readable(b, right)
        a = readable(a, left)
        buffered = needs_buffer(problem, scheme, plan.method.splits) or not is_aligned(out)
        target = np.empty((problem.M, problem.N), problem.result.numpy) if buffered else out
        numbers = _scalar(alpha, left), _scalar(0 if c is None else beta, left)
        nbytes = layout.nbytes
        workspace = pool.shared().take(nbytes)
        how: dict[str, Any] = {"workspace": workspace}
        how["mirror"] = image(problem, target, None if buffered else mirror)
        try:
            scaling = scaling_of(
                plan, a, b if source is None else source, workspace, nbytes, (c, *numbers)
            )
            is_finite = None
            if scaling is not None:
                load(c, target, problem)
                may_fail = layout.scheme is not None and plan.options.check != "none"
                is_finite = _core.gemm(
                    *(layout, a, source, target, *numbers),
                    row_scales=scaling.rows,
                    column_scales=scaling.columns,
                    packed=packed,
                    report=is_split or may_fail,
                    **how,
                )
            if scaling is None or is_finite is False:
                # Norms that cannot be measured, NaN or Inf in the input, a sum that overflowed:
                # return what the classical algorithm returns.
                again = b.source_to_redo(scaling is None) if isinstance(b, PackedOperand) else b
                load(c, target, problem)
                classical = blocking.to_redo(problem, nbytes, buffered)
                _core.gemm(classical, a, readable(again, right), target, *numbers, **how)
        finally:
            pool.shared().give(workspace, nbytes)
        if buffered:
            for copy in (out,) if mirror is None else (out, mirror):
                store(target, copy, problem)

    def small_product(self, library: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a function that multiplies small float arrays, and returns None for others.

        `library`: a function of a, b and out, for what it multiplies faster. None: for all.
        """
        if isa() == "generic":
            return None
        return _core.SmallProducts(isa(), SMALLEST_PLANNED / 2, library).multiply

    def direct_product(self, plan: Plan) -> Callable[..., np.ndarray] | None:
        """Return a function for products that `execute` runs without a workspace; None: others."""
        if not _is_tiny(plan):
            return None

        def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
            if not are_plain(a, b, out):
                self.execute(plan, a, b, None, out)
                return out
            if plan.threads > 1 and perf_counter() > share.next_look:
                share.look()
            _core.gemm(plan.method.layout, a, b, out)
            return out

        return run

    def execute_batch(
        self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, *, alpha: Any = 1
    ) -> bool:
        """Multiply by what `direct_batch` returns for a batch of this form."""
        run = self.direct_batch(plan, a, b, out, alpha)
        if run is not None:
            run(a, b, out)
        return run is not None

    def direct_batch(
        self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, alpha: Any = 1
    ) -> Callable[..., np.ndarray] | None:
        """Return a function for batches that lie in memory as these; None: the engine takes none.

        `a`, `b`: broadcast to the batch of `out`, here and by the function.
        """
        p, arrays = plan.problem, (a, b, out)
        kinds = p.operand.left, p.operand.right, p.result
        able = plan.method.is_classical and not plan.parts and plan.method.arithmetic is None
        if not able or any(
            x.dtype != kind.numpy or not is_aligned(x)
            for x, kind in zip(arrays, kinds, strict=True)
        ):
            return None
        layout, scale, part = plan.method.layout, _scalar(alpha, p.operand), p.operand.part
        if part is not None:  # complex matrices
            layout = blocking.of_complex_batch(p)
            by_rows = all(x.strides[-1] == x.itemsize for x in (a, out))
            if alpha != 1 or p.symmetric or not (by_rows and layout.is_direct):
                return None
        nbytes = layout.nbytes
        batch = out.shape[:-2]
        steps = tuple(np.broadcast_to(x, (*batch, *x.shape[-2:])).strides[:-2] for x in arrays)
        at_a, at_b, at_out = ((0,) * (x.ndim - 2) for x in arrays)

        def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
            if plan.threads > 1 and perf_counter() > share.next_look:
                share.look()
            left, first = a[at_a], out[at_out]
            if part is not None:
                left, first = left.view(part.numpy), first.view(part.numpy)
            workspace = pool.shared().take(nbytes)
            try:
                _core.gemm_batch(
                    *(layout, left, b[at_b], first, batch, steps, scale),
                    workspace=workspace,
                    mirror=image(p, first, None),
                )
            finally:
                pool.shared().give(workspace, nbytes)
            return out

        return run

    def pack(self, b: np.ndarray, plan: Plan) -> Any:
        """Combine B, or lay it out for the classical kernel."""
        layout = blocking.to_pack(plan.problem, plan.scheme, plan.method.operand)
        return _core.pack_b(layout, readable(b, plan.problem.operand.right))

    def column_norms(self, b: np.ndarray, plan: Plan) -> np.ndarray:
        """Return the squared 2-norms of the columns of `b`; NaN: they are too uneven."""
        b = readable(b, plan.problem.operand.right)
        return norms_to_pack(b, plan)

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return how to multiply by a packed operand, whose passes over K and N are given."""
        operand = BY_ARITHMETIC.get(packed.arithmetic)
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
            "kept residues": f"{residues.memory().nbytes // 2**20} MiB",
        }
        if found["in use"] != "none":
            for x in ENGINE:
                found[f"{x.engine} kernel"] = _core.kernel_info(x.engine, isa())["name"]
        return found

    def release_workspace(self) -> None:
        """Free the workspaces that are kept between calls."""
        if _core is not None:
            pool.shared().clear()
        residues.release()

    def measure(
        self, operand: DType, threads: int, budget: float = 1.0, device: int | None = None
    ) -> Rates:
        """Measure the rates of the cost model."""
        found = measure(self, operand.part or operand, threads, budget)
        return found if operand.part is None else found.slower(3)

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """What a stored measurement must agree with: instruction set, kernels, their state."""
        kernels = dict.fromkeys(_core.kernel_info(x.engine, isa())["name"] for x in ENGINE)
        return {"isa": isa(), "kernels": ", ".join(kernels), "revision": _REVISION}


def cache_bytes() -> dict[str, int]:
    """Bytes of the caches ``l1d``, ``l2`` (per core) and ``l3`` (as shared); empty if unknown."""
    if _core is None:
        return {}
    return {name: size for name, size in _core.cache_sizes().items() if name != "l3_sharers"}


def _is_tiny(plan: Plan) -> bool:
    """Whether the engine multiplies without a workspace, and does nothing else."""
    method = plan.method
    is_plain = method.workspace == 0 and method.scheme is None and method.arithmetic is None
    return is_plain and not plan.problem.symmetric


def _scalar(x: Any, operand: DType) -> Any:
    """Return alpha or beta as the engine takes it: integers as signed ones, all 64 bits."""
    if operand.is_exact:
        return (int(x) + 2**63) % 2**64 - 2**63
    return complex(x) if operand.is_complex else float(x)


def _complex_forms(scheme: Scheme | ComplexScheme | None) -> tuple[ComplexScheme, ...]:
    """Return the ways to multiply complex matrices by a scheme, the classical algorithm first."""
    if isinstance(scheme, ComplexScheme):
        return (scheme,)
    three = complex_scheme(M3, scheme)
    return (three,) if scheme is not None else (complex_scheme(M4, None), three)
