"""`GpuBackend`: CUDA kernels and cuBLAS behind the contract of `falcon._core.backend.Backend`.

Its operands are `Matrix` objects, which `falcon._front.adapters.device` makes of CuPy arrays and
torch tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import hypot
from typing import Any

from falcon._core.bound import growth_of_rounded_sums
from falcon._core.dtypes import CUDA, FLOAT32
from falcon._core.packed import PackedOperand
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.policy import Policy
from falcon._core.problem import Problem
from falcon.codegen.cuda_plan import products
from falcon.schemes import Scheme

from . import (
    available,
    cublas,
    device,
    driver,
    kernels,
    model,
    operands,
    repaired,
    workspaces,
)
from .arrays import library_of
from .geometry import (
    block_sizes,
    buffers,
    chunks_within,
    combined_again,
    scale_bytes,
    staged,
)
from .matrix import Matrix, dense
from .packed import Packed, Payload
from .rates import DeviceRates, measure
from .records import Record
from .steps import Fill, Step, run
from .where import device_of

_log = logging.getLogger("falcon")

# Without a limit, a call's workspace is at most one part in so many of the device's memory.
_WORKSPACE_SHARE = 4


_POLICY = Policy(
    # Below these sizes launches take longer than an LCMA could save.
    smallest=1024,
    smallest_flops=0.0,
    smallest_block=256,
    # The model counts the launches and the waves of small chunks.
    smallest_chunk=0,
    # No lower bounds prune here, every candidate is evaluated: few compositions are compared.
    nested=False,
    nested_block=1,
    # Smaller predicted gains are not taken: the error of the model.
    least_gain=1.02,
    tie=0.0,
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

    def why_not(self, problem: Problem) -> str | None:
        """Return None for floating matrices in GPU memory, else why the problem cannot run."""
        if problem.device is None:
            return (
                "a and b are in host memory; move them first (cupy.asarray(a), or a.cuda() of "
                "torch), or leave backend='auto' for the CPU"
            )
        if problem.operand.cuda is None:
            known = ", ".join(x.name for x in CUDA)
            return f"GPU matrices must be of {known}, not {problem.operand}"
        if problem.is_wide:
            return f"the operands are cast to {problem.result} first"
        return None

    def why_classical_only(self, problem: Problem, scheme: Scheme | None = None) -> str | None:
        """Return `why_not`: every scheme runs on every dtype."""
        return self.why_not(problem)

    def policy(self, problem: Problem) -> Policy:
        return _POLICY_16_BITS if problem.operand.itemsize == 2 else _POLICY

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        options = [_option(problem, scheme, limit) for scheme in schemes]
        return [option for option in options if option is not None]

    def predicted(self, problem: Problem, option: Option, rates: DeviceRates) -> Candidate:
        return Candidate(option, model.seconds(problem, option, rates))

    def execute(
        self,
        plan: Plan,
        a: Matrix,
        b: Matrix | PackedOperand,
        c: Matrix | None,
        out: Matrix,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        mirror: Any = None,
    ) -> None:
        """Write ``alpha a b + beta c`` to `out`; `c` is read only if `beta` is not zero.

        No Problem on a device is symmetric: there is never a `mirror`.
        """
        payload = b.payload if isinstance(b, PackedOperand) else None
        source: Any = b if payload is None else payload.source
        library = library_of(a.owner)

        def multiply(plan: Plan) -> None:
            packed = None if payload is None else payload.packed_for(plan)
            call = operands.Call.of(plan, a, source, c, out, packed)
            memory = workspaces.for_call(library, call.nbytes, optional=plan.guarded)
            steps = driver.steps_of(call, memory, alpha=float(alpha), beta=float(beta))
            run(*steps, workspace=workspaces.for_cublas(library))

        try:
            multiply(_settled(plan))
        except MemoryError as error:
            if not plan.guarded:
                raise
            _log.debug("falcon: %s is multiplied classically: %s", plan.problem, error)
            multiply(_classical(plan))
        if payload is not None:
            payload.note_use()

    def call(self, plan: Plan, a: Any, b: Any, out: Any) -> Any:
        """Run a plan on arrays: `Plan.__call__` for arrays on a GPU."""
        p = plan.problem
        library = library_of(a)
        shapes = (("a", a, (p.M, p.K)), ("b", b, (p.K, p.N)), ("out", out, (p.M, p.N)))
        for name, x, shape in shapes:
            if x is None:
                continue
            found = tuple(x.shape), library_of(x).dtype(x), device_of(x)
            if found != (shape, p.operand.left, p.device):
                raise ValueError(
                    f"{name} is {found[0]} {found[1]} on cuda:{found[2]}; this plan is for "
                    f"{shape} {p.operand.left} on cuda:{p.device}"
                )
        assert p.device is not None
        with device.on(p.device), library.stream(p.device):
            if out is None:
                out = library.empty((p.M, p.N), p.result, p.device)
            left, right, target = (library_of(x).matrix(x) for x in (a, b, out))
            if target.overlaps(left) or target.overlaps(right):
                raise ValueError(
                    "out overlaps an operand; falcon.gemm handles that, a plan does not"
                )
            self.execute(plan, left, right, None, target)
        return out

    def prepared(self, plan: Plan, a: Any, b: Any, out: Any) -> Record | None:
        """Return the steps of a call, to be repeated; None during a capture. `b` may be packed."""
        left, target = (library_of(x).matrix(x) for x in (a, out))
        right = b.payload if isinstance(b, PackedOperand) else library_of(b).matrix(b)
        index = plan.problem.device
        assert index is not None
        with device.on(index), library_of(a).stream(index):
            return None if device.is_capturing() else Record(_settled(plan), left, right, target)

    def pack(self, b: Matrix, plan: Plan) -> Payload:
        """Form the sums of B, or its parts; its columns are scaled as in `driver`."""
        problem, operand = plan.problem, plan.problem.operand
        scheme, dtype = staged(operand, plan.scheme), operand.left
        allocate = partial(workspaces.allocate, library_of(b.owner))
        if not operands.readable(b, dtype):
            memory = allocate(problem.K * problem.N * dtype.itemsize)
            copied = dense(memory.pointer, b.shape, dtype, memory.owner)
            run(kernels.copy(b, copied))
            b = copied
        assert problem.device is not None
        if scheme is None:
            return Payload(b, None)
        block = block_sizes(problem.M, problem.N, problem.K, scheme)
        nbytes = scheme.rank * block[1] * block[2] * operand.panel_bytes
        memory = allocate(nbytes)
        powers, scale = None, 0
        steps: list[Step] = []
        even, lift = plan.guarded, operand.parts > 1
        if lift or (even and scheme.n > 1):
            powers = allocate(scale_bytes(problem.N))
            scale = powers.pointer
            lines = [kernels.Lines(b.transposed(), block[1], scale)]
            steps = [Fill("norms", (scale, 8))]
            steps += kernels.scales(lines, memory.pointer, nbytes, even, lift)
        whole = block[2], block[1]
        part = kernels.Part(b, whole, (0, 0), whole, memory.pointer, scale)
        run(*steps, kernels.combine(scheme, operand, of_b=part))
        return Payload(b, Packed(memory, block, b.by_columns, operand, powers))

    def column_norms(self, b: Matrix, plan: Plan) -> Any:
        """Return that products are guarded; `pack` finds the powers of B's columns."""
        return True

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return how to multiply by a packed operand; the workspace may exceed `limit`."""
        found = _option(problem, packed.scheme, limit)
        found = found or _option(problem, packed.scheme, None)
        assert found is not None  # without a limit there always is one
        return found

    def measure(self, problem: Problem, budget: float = 1.0) -> DeviceRates:
        """Measure the problem's device for its dtype, outside of any capture of a graph.

        `budget` makes no difference.
        """
        assert problem.device is not None
        return measure(problem.device, problem.operand)

    def identity(self, index: int | None = None, /) -> dict[str, str]:
        """Return what stored rates are valid for: device, driver and libraries."""
        found = device.properties(device.current() if index is None else index)
        return {
            "device": found.name,
            "driver": str(found.driver),
            "cupy": device.version(),
            "cuda": str(device.runtime_version()),
            "cublas": cublas.version(),
        }


def _settled(plan: Plan) -> Plan:
    """Return the classical plan where parts or the scheme of "auto" had to be repaired before."""
    parted = plan.problem.operand.parts > 1
    if not (plan.guarded or parted) or not repaired.was_repaired(plan.problem):
        return plan
    _log.debug("falcon: %s is multiplied classically: it was repaired before", plan.problem)
    return _classical(plan)


def _classical(plan: Plan) -> Plan:
    """Return the plan of the same problem by cuBLAS alone."""
    parted = plan.problem.operand.parts > 1
    problem = replace(plan.problem, operand=FLOAT32) if parted else plan.problem
    option = _option(problem, None, None)
    assert option is not None  # without a limit there always is one
    return replace(plan, problem=problem, option=option, guarded=False)


def _option(problem: Problem, scheme: Scheme | None, limit: int | None) -> Option | None:
    """Choose blocks and chunks for a scheme; None if the scheme cannot keep the limit."""
    sizes = M, N, K = problem.M, problem.N, problem.K
    run_as = staged(problem.operand, scheme)
    a, b = not problem.a_direct, not (problem.b_direct or problem.packed)
    c = problem.buffered and run_as is not None
    extra = sum(operands.copied_bytes(problem, (a, b, c, not problem.out_direct)))
    if run_as is None:
        return Option("gpu", None, sizes, extra)
    block = block_sizes(M, N, K, run_as)
    assert problem.device is not None
    if limit is None:
        room = device.properties(problem.device).memory_bytes // _WORKSPACE_SHARE
    else:
        room = limit - extra
    chunk = chunks_within(block, problem, run_as, room)
    if chunk is None and scheme is None:  # always an option, and too large for the limit
        chunk = block_sizes(1, 1, K if problem.packed else 1, run_as)
    if chunk is None:
        return None
    m, k, n = run_as.format
    whole = (m * chunk[0], n * chunk[1], k * chunk[2])
    how, growth = problem.operand.arithmetic, None
    if how is not None:
        growth = max(how.growth, 1.0)
        if how.parts > 1:
            longest = products(run_as).groups[0].length
            growth = hypot(growth, cublas.growth_of_sums(longest * chunk[2]))
        growth *= 1.0 if scheme is None else scheme.rms_growth
    elif problem.accumulator is not problem.operand:  # sums of 16 bits are rounded
        growth = growth_of_rounded_sums(run_as)
    return Option(
        "gpu",
        scheme,
        whole,
        extra + sum(buffers(chunk, problem, run_as)),
        again=combined_again(block, chunk),
        tiling=(*block, *chunk),
        rounded_growth=growth,
    )
