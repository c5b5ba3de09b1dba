"""`GpuBackend`: CUDA kernels and cuBLAS behind the contract of `falcon._core.plan.Backend`.

Its operands are `Matrix` objects, which `falcon._gpu.adapter` makes of CuPy arrays and
torch tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import hypot
from typing import Any

from falcon._core.bound import growth_of_rounded_sums
from falcon._core.dtypes import BY_ARITHMETIC_ON_GPUS, CUDA, DType
from falcon._core.matrix import Matrix, checked_out
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon._core.where import device_of
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import available, cublas, device, embedded, fused, kernels, model, operands, workspaces
from .arrays import library_of
from .geometry import FUSED_BLOCK, UNIT, Tables, round_up, segment_bytes, step_bytes
from .layout import Layout, layout_of
from .matrix import Memory
from .packed import Packed, Payload, Sums
from .rates import DeviceRates, fixed, known, measure
from .runner import GpuRunner
from .steps import Step, run

# Without a limit, a call's workspace is at most one part in so many of the device's memory.
_WORKSPACE_SHARE = 8


_FIXED = BY_ARITHMETIC_ON_GPUS["fixed"]
_POLICY = Policy(
    # Below these sizes no LCMA was faster (H200: float32 at 2048^3 0.98, at 3072^3 1.05), and the
    # launches take the host as long as the product takes the device.
    smallest=2048,
    smallest_flops=0.0,
    smallest_block=256,
    # The model counts the launches and the waves of small chunks.
    smallest_chunk=0,
    # No lower bounds prune here, every candidate is evaluated: few compositions are compared.
    nested=False,
    nested_block=1,
    # Smaller predicted gains are not taken: the error of the model.
    least_gain=1.02,
    growth_price=0.0,
    # The common model predicts neither its times nor its rounding.
    common_model=False,
)
# In 16 bits, where combines and norms take a large part of the time, more of it is unknown until it
# is measured on a GPU.
_POLICY_16_BITS = replace(_POLICY, least_gain=1.08)


class GpuBackend:
    """See the module's docstring."""

    name = "gpu"
    is_library = True
    rest = 0.0
    rates_type = DeviceRates

    def why_unavailable(self) -> str | None:
        return available.why_unavailable()

    def why_not(self, problem: Problem, compute_type: DType | None = None) -> str | None:
        """Return None for floating matrices in GPU memory, else why the problem cannot run."""
        if problem.device is None:
            return (
                "a and b are in host memory; move them first (cupy.asarray(a), or a.cuda() of "
                "torch), or leave backend='auto' for the CPU"
            )
        if problem.operand.cuda is None:
            known = ", ".join(x.name for x in CUDA)
            return f"GPU matrices must be of {known}, not {problem.operand}"
        if compute_type is _FIXED and not cublas.has_fixed_point():
            return f"products in fixed point need cuBLAS 13.1; this is {cublas.version()}"
        if problem.is_wide:
            return f"the operands are cast to {problem.result} first"
        return None

    def why_classical_only(
        self, problem: Problem, scheme: Scheme | None = None, compute_type: DType | None = None
    ) -> str | None:
        """Return `why_not`: every scheme runs on every dtype."""
        return self.why_not(problem)

    def policy(self, problem: Problem) -> Policy:
        policy = _POLICY_16_BITS if problem.operand.itemsize == 2 else _POLICY
        assert problem.device is not None
        return policy if cublas.knows_sums(problem.device) else replace(policy, by_splits=False)

    def candidates(
        self,
        problem: Problem,
        schemes: Iterable[Scheme | None],
        limit: int | None,
        compute_type: DType | None = None,
    ) -> list[Method]:
        options = [_method(problem, scheme, limit, compute_type) for scheme in schemes]
        return [method for method in options if method is not None]

    def predicted(self, problem: Problem, method: Method, rates: DeviceRates) -> Candidate:
        return Candidate(method, model.seconds(problem, method, rates))

    def runner(self, plan: Plan) -> GpuRunner:
        """Return what runs a plan in the current stream."""
        return GpuRunner(plan)

    def reduce(self, *_: Any) -> None:
        """Products modulo p are of host memory; `plan_for` has refused them."""
        raise TypeError("products modulo p are multiplied in host memory")

    def matrix(self, name: str, x: Any, index: int | None) -> Matrix:
        """Describe an array in the memory of a device."""
        if device_of(x) != index:
            raise ValueError(f"{name} is on cuda:{device_of(x)}; this plan is for cuda:{index}")
        library = library_of(x)
        found = library.matrix(x)
        if name != "out":
            return found
        library.note_write(x)
        return checked_out(found)

    def empty(self, shape: tuple[int, int], dtype: DType, like: Any) -> Any:
        """Make an array by rows on the device of another one."""
        library, index = library_of(like), device_of(like)
        assert index is not None
        with device.on(index), library.stream(index):
            return library.empty(shape, dtype, index)

    def pack(self, b: Matrix, plan: Plan) -> Payload:
        """Form the sums of B, or its parts; its columns are multiplied by powers as in `driver`."""
        real = embedded.real_of(plan)
        if real is not None:
            b, plan = embedded.turned_of(b, plan.problem.operand), real
        layout, operand = plan.method.layout, plan.operand
        allocate = partial(workspaces.allocate, library_of(b.owner))
        if not (b.holds(operand.left) and b.is_direct):
            b = operands.duplicate(b, operand.left)
        if layout.scheme is None:
            return Payload(b, None)
        _, columns, inner = layout.block
        memory = allocate(layout.scheme.rank * columns * inner * operand.panel_bytes)
        powers = segments = even = Memory(0, 0, None)
        steps: list[Step] = []
        fit = kernels.exponent_of_norms(layout.scheme, operand)
        if fit or (plan.guarded and layout.scheme.n > 1):
            powers = allocate(Tables(plan.problem.N, plan.problem.accumulator.itemsize).nbytes)
            if layout.centred:
                segments = allocate(segment_bytes(plan.problem.N, plan.problem.K))
            if plan.problem.may_have_units:
                even = allocate(step_bytes(b.shape[0], b.itemsize))
                steps.append(kernels.units(b, even.pointer))
            tables = powers.pointer, segments.pointer, even.pointer, round_up(b.shape[0], UNIT)
            lines = [kernels.Lines(b.transposed(), columns, *tables)]
            scratch = memory.pointer, memory.nbytes
            steps += kernels.powers(lines, *scratch, plan.guarded, fit)
        sums = Sums(memory.pointer, columns, inner, b.by_columns, True, operand)
        spans = (0, inner), (0, columns)
        part = kernels.Part(b, (inner, columns), *spans, sums, powers.pointer, steps=even.pointer)
        run(*steps, kernels.combine(layout.scheme, operand, of_b=part, centred=layout.centred))
        return Payload(b, Packed(sums, memory, powers, segments, even))

    def column_norms(self, b: Matrix, plan: Plan) -> tuple[bool, None]:
        """Return that products are guarded; `pack` finds the powers of B's columns."""
        return True, None

    def packed_method(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Method:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""
        operand = BY_ARITHMETIC_ON_GPUS.get(packed.arithmetic)
        within = _method(problem, packed.scheme, limit, operand)
        return within or _without_limit(problem, packed.scheme, operand)

    def kernels(self) -> str:
        """Its shipped rates are those of devices."""
        return ""

    def describe(self) -> dict[str, str]:
        return {} if self.why_unavailable() else self.identity()

    def release_workspace(self) -> None:
        """Free what captured graphs keep; ask again for memory that was refused."""
        workspaces.release()

    def measure(
        self, operand: DType, threads: int, budget: float = 1.0, device: int | None = None
    ) -> DeviceRates:
        """Return the rates of a device: shipped or, outside of any capture of a graph, measured.

        By shipped ones all ranks of a job plan alike.
        `threads` makes no difference. `budget`: 0 measures nothing; shipped rates are those of one
        kind of GPU.
        """
        assert device is not None
        if budget == 0:
            return fixed(device, operand)
        return known(device, operand) or measure(device, operand)

    def identity(self, index: int | None = None, /) -> dict[str, str]:
        """Return what stored rates are valid for: device, driver and libraries."""
        about = device.properties(device.current() if index is None else index)
        return {
            "device": about.name,
            "driver": str(about.driver),
            "cupy": device.version(),
            "cuda": str(device.runtime_version()),
            "cublas": cublas.version(),
        }


def _without_limit(problem: Problem, scheme: Scheme | None, compute_type: DType | None) -> Method:
    method = _method(problem, scheme, None, compute_type)
    assert method is not None  # without a limit there always is one
    return method


def _method(
    problem: Problem, scheme: Scheme | None, limit: int | None, compute_type: DType | None
) -> Method | None:
    """Return how to multiply by a scheme; None if it cannot keep the limit."""
    usual = 0
    if limit is None:
        assert problem.device is not None
        usual = device.properties(problem.device).memory_bytes // _WORKSPACE_SHARE
    multiplied = compute_type or problem.operand
    is_fused = fused.multiplies(multiplied, problem.device or 0)
    layout = layout_of(problem, scheme, multiplied, limit, usual, is_fused)
    if layout is None:
        return None
    if layout.scheme is None:
        chunks, growth = (problem.M, problem.N, problem.K), None
    else:
        (m, k, n), (rows, columns, inner) = layout.scheme.format, layout.chunk
        chunks = m * rows, n * columns, k * inner
        growth = _growth(problem, scheme, layout, inner)
    about: dict[str, Any] = {"layout": layout, "rounded_growth": growth}
    return Method("gpu", scheme, chunks, layout.nbytes, compute_type=compute_type, **about)


def _growth(problem: Problem, scheme: Scheme | None, layout: Layout, inner: int) -> float | None:
    """Return the growth by the rounding of splits and of sums of 16 bits; None: as in float32."""
    how, scheme_to_run = layout.operand.arithmetic, layout.scheme
    assert scheme_to_run is not None  # for type checkers
    if how is not None:
        growth = max(how.growth, 1.0) * (1.0 if scheme is None else scheme.rms_growth)
        if how.splits > 1:  # what is truncated shrinks all products alike: sums do not magnify it
            longest = products(scheme_to_run).groups[0].length
            assert problem.device is not None
            index, inner = problem.device, longest * inner
            piece = FUSED_BLOCK
            if not layout.fused:
                piece = cublas.longest(inner, index, problem.short_sums)
            growth = hypot(growth, cublas.growth_of_sums(inner, index, piece))
        return growth
    if problem.accumulator is not problem.operand:
        return growth_of_rounded_sums(scheme_to_run)
    return None
