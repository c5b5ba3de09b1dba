"""`CpuBackend`: falcon's own kernels behind the contract of `falcon._core.backend.Backend`.

The C engine does everything in one call: sums of A and B straight into packed panels, products and
C updates on chip, alpha and beta. This module chooses the instruction set and the workspace, and
falls back to the classical algorithm where a value is not finite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from falcon._core.dtypes import ENGINE
from falcon._core.look import column_norms
from falcon._core.model import of_triangle, seconds
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.policy import BLAS, Policy
from falcon._core.problem import Problem, is_streamed, is_thin
from falcon._core.rates import Rates
from falcon.schemes import Scheme, SymmetricScheme

from .extension import isa, seen, why_unavailable
from .operands import (
    are_plain,
    as_written,
    extra_bytes,
    images,
    is_aligned,
    load,
    needs_buffer,
    readable,
    store,
    triangle,
)

try:
    from . import _core
    from .measure import measure
    from .norms import look_at, measuring, named
    from .packed import Payload
    from .pool import Pool, kept_bytes, largest_bytes, roomy_bytes
    from .programs import engine_scheme
    from .rounding import rounded_growth, why_not_wide
except ImportError:  # `why_unavailable` says so
    _core = None  # type: ignore[assignment]

# To be raised when the speed of kernels or stages changes: stored measurements are then ignored.
_REVISION = "8"


class CpuBackend:
    """See the module's docstring."""

    name = "cpu"
    spins = False
    rates_type = Rates

    def why_unavailable(self) -> str | None:
        """Return None if the extension was built and the requested instruction set runs."""
        return why_unavailable()

    def why_not(self, problem: Problem) -> str | None:
        """Return None for types that there are kernels for, else why it cannot run here."""
        if problem.operand.engine is None:
            known = " and ".join(x.name for x in ENGINE)
            return f"its kernels multiply {known}, not {problem.operand}"
        return None

    def why_classical_only(self, problem: Problem, scheme: Scheme | None = None) -> str | None:
        """Return None unless the result is wider and a scheme's sums would not fit the panels."""
        reason = self.why_not(problem)
        if reason is None and problem.is_wide:
            reason = why_not_wide(problem.operand, scheme, isa())
        return reason

    def policy(self, problem: Problem) -> Policy:
        """Return that of fast kernels: every type here has them."""
        return BLAS

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        """Return an option per scheme that keeps the limit; None is the classical algorithm."""
        found = []
        for scheme in schemes:
            if scheme is not None and problem.is_wide and self.why_classical_only(problem, scheme):
                continue
            option = _option(problem, scheme, limit)
            if option is not None:
                found.append(option)
                if limit is None and scheme is not None:
                    found += _roomier(problem, option)
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
        """Write ``alpha a b + beta c`` to `out`; `c` is read only if `beta` is not zero."""
        problem, scheme = plan.problem, plan.scheme
        left, right = problem.operand.left, problem.operand.right
        is_tiny = c is None and plan.option.workspace == 0 and scheme is None
        is_tiny = is_tiny and mirror is None and not problem.symmetric
        if is_tiny and isinstance(b, np.ndarray) and are_plain(a, b, out):
            # A call of microseconds: what follows would take as long as the product.
            operands = seen(a, left), seen(b, right), seen(out, problem.result)
            _core.gemm(*operands, float(alpha), threads=plan.threads, isa=isa())
            return
        packed = b.payload if isinstance(b, PackedOperand) else None
        source = None if isinstance(b, PackedOperand) else readable(b, right)
        a = readable(a, left)
        buffered = needs_buffer(problem, plan.option.of_gram or scheme) or not is_aligned(out)
        target = np.empty((problem.M, problem.N), problem.result.numpy) if buffered else out
        written = as_written(plan, target)
        scalars = (seen(written, problem.result), float(alpha), 0.0 if c is None else float(beta))
        copies = images(plan, written, None if buffered else mirror)
        engine = engine_scheme(plan.option.of_gram or scheme)
        tiling, nbytes = plan.option.tiling[:-1], plan.option.tiling[-1]
        if source is not None:
            nbytes = max(nbytes, _needed(plan, a, source, scalars[0]))
        workspace = _pool().take(nbytes)
        try:
            scaling = look_at(plan, a, b if source is None else source, workspace, nbytes)
            refused = scaling is None
            if scaling is not None:
                load(c, target, problem)
                finite = _core.gemm(
                    a,
                    source,
                    *scalars,
                    row_scales=scaling.rows,
                    column_scales=scaling.columns,
                    packed=None if packed is None else packed.engine,
                    threads=plan.threads,
                    isa=isa() if packed is None else packed.isa,
                    scheme=engine,
                    blocking=tiling,
                    workspace=workspace,
                    report=engine is not None and plan.options.check != "none",
                    **copies,
                )
            if refused or finite is False:
                # Norms that cannot be measured, NaN or Inf in the input, a sum that overflowed:
                # return what the classical algorithm returns.
                whole = b.source_to_redo(refused) if isinstance(b, PackedOperand) else b
                whole = readable(whole, right)
                load(c, target, problem)
                _classical_within(workspace, nbytes, a, whole, scalars, plan, copies)
        finally:
            _pool().give(workspace, nbytes)
        if buffered:
            for copy in (out,) if mirror is None else (out, mirror):
                store(target, copy, problem)

    def execute_batch(
        self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, *, alpha: Any = 1
    ) -> bool:
        """Write the products of all matrices of a batch; False where they must be run one by one.

        `plan` is that of the first matrices; `out` overlaps no operand.
        """
        p, arrays = plan.problem, (a, b, out)
        kinds = p.operand.left, p.operand.right, p.result
        able = plan.scheme is None and plan.option.of_gram is None and not plan.parts
        if not able or any(
            x.dtype != kind.numpy or not is_aligned(x)
            for x, kind in zip(arrays, kinds, strict=True)
        ):
            return False
        first = (0,) * (out.ndim - 2)
        left, right, target = (seen(x[first], y) for x, y in zip(arrays, kinds, strict=True))
        nbytes = max(plan.option.tiling[-1], _needed(plan, left, right, target))
        workspace = _pool().take(nbytes)
        try:
            _core.gemm_batch(
                *(left, right, target, out.shape[:-2]),
                tuple(x.strides[:-2] for x in arrays),
                float(alpha),
                threads=plan.threads,
                isa=isa(),
                blocking=plan.option.tiling[:-1],
                workspace=workspace,
                **images(plan, target, None),
            )
        finally:
            _pool().give(workspace, nbytes)
        return True

    def pack(self, b: np.ndarray, plan: Plan) -> Payload:
        """Combine B, or lay it out for the classical kernel."""
        b = np.asarray(b, plan.problem.operand.numpy)
        if not is_aligned(b):
            b = np.array(b, order="C")
        return Payload.of(b, plan.scheme, plan.threads, isa())

    def scales(self, b: np.ndarray, plan: Plan) -> np.ndarray:
        """Return the squared 2-norms of the columns of `b`."""
        operand = plan.problem.operand
        return column_norms(named(readable(b, operand), operand), measuring(plan))

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return how to multiply by a packed operand, whose passes over K and N are given."""
        extra = extra_bytes(problem, packed.scheme)
        tiling, nbytes = _core.plan(
            problem.M,
            problem.N,
            problem.K,
            problem.operand.engine,
            isa=packed.payload.isa,
            scheme=engine_scheme(packed.scheme),
            threads=problem.threads,
            limit=_room(limit, extra),
            packed=packed.payload.engine,
            **_layout(problem, packed.scheme),
        )
        cut = _cut(problem, tiling, nbytes + extra)
        return Option(self.name, packed.scheme, *cut, (*tiling, nbytes))

    def predicted(self, problem: Problem, option: Option, rates: Rates) -> Candidate:
        """Return the option with its seconds by the common cost model."""
        times = seconds(problem, option, rates)
        if problem.symmetric:  # micro-tiles that the diagonal cuts are computed whole
            times = of_triangle(times, 0.5 + sum(rates.tile) / (2 * problem.M))
        return Candidate(option, times)

    def kernels(self) -> str:
        """Return the instruction set in use."""
        return isa()

    def measure(self, problem: Problem, thorough: bool = False) -> Rates:
        """Measure the rates of the cost model (about a second; `thorough`: some seconds)."""
        limit = _pool().limit
        return measure(problem.operand, problem.threads, isa(), limit, thorough=thorough)

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """What a stored measurement must agree with: instruction set, kernels, their state."""
        kernels = dict.fromkeys(_core.kernel_info(x.engine, isa())["name"] for x in ENGINE)
        return {"isa": isa(), "kernels": ", ".join(kernels), "revision": _REVISION}


def describe() -> dict[str, str]:
    """Return what `falcon.show_config` reports of the kernels."""
    if _core is None:
        return {}
    caches, kept = _core.cache_sizes(), _pool().nbytes
    sizes = ", ".join(f"{name} {caches[name] // 1024} KiB" for name in ("l1d", "l2", "l3"))
    found = {
        "instruction sets": ", ".join(_core.supported_isas()),
        **{f"{name} refused": why for name, why in _core.refused_isas().items()},
        "in use": isa() if why_unavailable() is None else "none",
        "caches": sizes,
        "kept workspace": f"{kept // 2**20} of at most {max(kept, _pool().limit) // 2**20} MiB",
    }
    if found["in use"] != "none":
        for x in ENGINE:
            found[f"{x.engine} kernel"] = _core.kernel_info(x.engine, isa())["name"]
    return found


def release_workspace() -> None:
    """Free the workspace that is kept between calls."""
    if _core is not None:
        _pool().clear()


@cache
def _pool() -> Pool:
    return Pool(kept_bytes())


def _option(
    problem: Problem, scheme: Scheme | SymmetricScheme | None, limit: int | None
) -> Option | None:
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
        limit=_room(limit, extra),
        triangle=triangle(problem, scheme),
        **_layout(problem, scheme),
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
    cut = _cut(problem, tiling, workspace)
    growth = None if problem.is_wide else rounded_growth(problem.operand, scheme, isa())
    if isinstance(scheme, SymmetricScheme):
        return Option(
            "cpu",
            None,
            *cut,
            (*tiling, nbytes),
            rounded_growth=growth or scheme.rms_growth,
            name=scheme.name,
            of_gram=scheme,
        )
    return Option("cpu", scheme, *cut, (*tiling, nbytes), in_place=in_place, rounded_growth=growth)


# Kernels that stream panels of B, and were measured with few rows.
_STREAMING = ("avx512",)


def _reads_b_once(problem: Problem) -> bool:
    """Whether the engine reads B once and makes no copy of it in memory, for few rows of A."""
    sizes = problem.M, problem.N, problem.K
    return is_thin(*sizes) or (
        is_streamed(*sizes, problem.operand.itemsize)
        and _core.kernel_info(problem.operand.engine, isa())["isa"] in _STREAMING
    )


def _roomier(problem: Problem, option: Option) -> list[Option]:
    """Return the option with more workspace, where that saves passes."""
    if option.chunks == (problem.M, problem.N, problem.K) or roomy_bytes() <= _pool().limit:
        return []
    found = _option(problem, option.scheme, roomy_bytes())
    fewer = found is not None and found.chunks != option.chunks
    return [replace(found, is_roomy=True)] if fewer and found is not None else []


def _cut(
    problem: Problem, tiling: tuple[int, ...], workspace: int
) -> tuple[tuple[int, int, int], int, bool, tuple[int, int, int]]:
    """Chunks, workspace, and how often the engine combines A and B and updates C.

    A is combined again for every pass over N if there are several over M; B never is, because
    passes over M are the innermost ones.
    """
    rows, columns, inner = tiling[:3]
    again = -(-problem.N // max(columns, 1)) if rows < problem.M else 1
    return (rows, columns, inner), workspace, True, (again, 1, -(-problem.K // max(inner, 1)))


def _needed(plan: Plan, a: np.ndarray, b: np.ndarray, target: np.ndarray) -> int:
    """Return the engine's workspace if the layout of the arrays is not the planned one; else 0.

    That happens only if a user calls a plan with other arrays.
    """
    problem, scheme = plan.problem, plan.scheme
    found = _core.layout(a, b, target)
    if found == _layout(problem, scheme):
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
        triangle=triangle(problem, plan.option.of_gram),
        **found,
    )[1]


def _layout(problem: Problem, scheme: Scheme | SymmetricScheme | None) -> dict[str, bool]:
    """Return the flags of `_core.plan`; a buffer for the product is row-major."""
    a_by_columns, b_by_rows, c_by_columns = problem.layout
    return {
        "a_by_columns": a_by_columns,
        "b_by_rows": b_by_rows,
        "c_by_columns": c_by_columns and not needs_buffer(problem, scheme),
        "c_wide": problem.is_wide,
    }


def _classical_within(
    workspace: Any,
    nbytes: int,
    a: np.ndarray,
    b: np.ndarray,
    scalars: tuple,
    plan: Plan,
    copies: dict[str, Any],
) -> None:
    """Multiply classically in the workspace of `nbytes` that a scheme was given.

    The blocking is that for `nbytes`, even if the pool had a larger workspace, so that the result
    does not depend on earlier calls.
    """
    target, K, threads = scalars[0], a.shape[1], plan.threads
    tiling, needed = _core.plan(
        target.shape[0],
        target.shape[1],
        K,
        plan.problem.operand.engine,
        isa=isa(),
        threads=threads,
        limit=max(nbytes, 1),
        triangle=copies["triangle"],
        **_core.layout(a, b, target),
    )
    room = workspace if needed <= workspace.nbytes else None
    how = copies | {"threads": threads, "isa": isa(), "blocking": tiling, "workspace": room}
    _core.gemm(a, b, *scalars, **how)


def _room(limit: int | None, extra: int) -> int:
    """Bytes that the engine may use: what the pool keeps, or what the caller leaves it."""
    return _pool().limit if limit is None else min(max(limit - extra, 1), largest_bytes())
