r"""Backend "numpy": any scheme, with any nesting, on top of NumPy's own BLAS; always available.

::

    A --Combine A--> At (R blocks) --\
                                      np.matmul --> H (R blocks) --Combine H--> C
    B --Combine B--> Bt (R blocks) --/

Each combine reads every input element once (strip by strip, see `codegen.numpy_exec`). A problem
whose workspace would pass the limit is cut into chunks of M, N and K that are multiplied in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from falcon._core import threads
from falcon._core.arithmetic import WHOLE
from falcon._core.cpus import kept_bytes
from falcon._core.look import has_room, judged
from falcon._core.model import of_triangle, seconds
from falcon._core.packed import PackedOperand
from falcon._core.parts import parts_bytes
from falcon._core.plan import Candidate, Option, Plan
from falcon._core.policy import Policy, host_policy
from falcon._core.problem import Problem
from falcon._core.rates import Rates
from falcon._core.spread import Scaling
from falcon.codegen import combine_a, combine_b, combine_c
from falcon.codegen.numpy_exec import run, scratch_slots, strip_rows
from falcon.schemes import Scheme

from . import original
from .classical import by_parts, classical, classical_workspace, copied_bytes, finish_bytes, store
from .norms import squared_norms
from .original import quiet_matmul
from .rates import blas_name, measure
from .threads import exceeds, limited, numpy_blas

# Chunks are not cut below blocks of this size: the limit is then refused.
_SMALLEST_BLOCK = 2
# The limit is also refused if it needs more chunks: each costs some tenths of a millisecond.
_MOST_CHUNKS = 2**14
# Time of np.matmul(x.T, x), which calls syrk and copies its triangle, over that of a general
# product of the same sizes: 0.56 to 0.73 (float32, float64; Zen 3 and 5).
_SYRK = 0.62


class NumpyBackend:
    """See the module's docstring; `falcon._core.backend.Backend` is the interface."""

    name = "numpy"
    is_library = True
    rates_type = Rates

    @property
    def rest(self) -> float:
        """Threads of OpenBLAS spin for 0.1 s, unless they are falcon's."""
        return 0.0 if threads.are_shared else 0.12

    def why_unavailable(self) -> str | None:
        """NumPy is a dependency: always available."""
        return None

    def why_not(self, problem: Problem) -> str | None:
        """NumPy multiplies everything, in the type of the operands; float32 by parts too."""
        if problem.is_wide:
            return f"NumPy multiplies {problem.operand} to {problem.operand}, not {problem.result}"
        if problem.operand.arithmetic is WHOLE:
            return "NumPy multiplies integers in loops"
        return None

    def why_classical_only(self, problem: Problem, scheme: Scheme | None = None) -> str | None:
        """LCMAs run only if sums of elements are as precise as sums of products."""
        operand = problem.operand
        if operand.parts > 1:
            return "NumPy multiplies the parts of float32 classically"
        if operand is not problem.accumulator:
            return f"sums of {operand} would be rounded to {operand} before they are multiplied"
        return None

    def policy(self, problem: Problem) -> Policy:
        """Return that of all backends for host memory; integers have no fast kernels here."""
        return host_policy(problem, has_kernels=problem.operand.has_blas)

    def beats_blas(self, problem: Problem) -> bool:
        """It is one."""
        return False

    def candidates(
        self, problem: Problem, schemes: Iterable[Scheme | None], limit: int | None
    ) -> list[Option]:
        options = []
        for scheme in schemes:
            if scheme is None:
                whole = (problem.M, problem.N, problem.K)
                workspace = classical_workspace(problem, limit) + parts_bytes(problem)
                how = problem.operand.arithmetic
                growth = None if how is None else how.growth
                options.append(Option(self.name, None, whole, workspace, rounded_growth=growth))
                continue
            room = finish_bytes(problem) + kept_bytes() if limit is None else limit
            chunks = _chunks_within(problem, scheme, room)
            if chunks is not None:
                stages = _Stages.of(problem, scheme, chunks)
                workspace = stages.workspace + finish_bytes(problem)
                cuts = -(-problem.M // max(chunks[0], 1)), -(-problem.K // max(chunks[2], 1))
                again = 1, cuts[0], cuts[1]  # sums of A are used for all chunks along N
                options.append(Option(self.name, scheme, chunks, workspace, again=again))
        return options

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
        problem = plan.problem
        right = b.payload if isinstance(b, PackedOperand) else b
        scaled = Scaling(columns=b.column_powers if isinstance(b, PackedOperand) else None)
        shape = (problem.M, problem.N)
        product = np.empty(shape, problem.result.numpy) if problem.buffered else out
        # As in BLAS, overflow and invalid operations show only in the result.
        with limited(problem.threads), np.errstate(all="ignore"):
            done = False
            if plan.scheme is not None and 0 not in (*shape, problem.K):
                done = _multiply(plan, a, b, product, alpha)
            if not done:
                if problem.operand.arithmetic is not None:
                    by_parts(problem.operand.arithmetic, a, right, product)
                else:
                    fits = finish_bytes(problem) + copied_bytes(problem) <= plan.workspace
                    classical(problem, a, right, product, copy=fits)
                scaled.undo(product)
                if alpha != 1:
                    np.multiply(product, alpha, out=product)
            if problem.buffered:
                store(product, c, beta, out, problem.symmetric)
            if mirror is not None:
                np.copyto(mirror, out)

    def direct_product(self, plan: Plan) -> Callable[..., np.ndarray] | None:
        """Return a function of a, b and out that does all that `execute` would; None: none does."""
        problem = plan.problem
        direct = problem.a_direct and problem.b_direct and not problem.buffered
        direct = direct and plan.scheme is None and problem.operand.arithmetic is None
        return quiet_matmul if direct and not exceeds(problem.threads) else None

    def execute_batch(
        self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, *, alpha: Any = 1
    ) -> bool:
        """Matrices are multiplied one by one; np.matmul itself is called where that is the plan."""
        return False

    def pack(self, b: np.ndarray, plan: Plan) -> np.ndarray:
        """Copy `b` for BLAS; its sums are formed again in every product."""
        return np.array(b, plan.problem.operand.right.numpy, order="C")

    def column_norms(self, b: np.ndarray, plan: Plan) -> np.ndarray:
        """Return the squared 2-norms of the columns of `b`."""
        return squared_norms(b, 1, np.empty(b.shape[1]))

    def packed_option(self, problem: Problem, packed: PackedOperand, limit: int | None) -> Option:
        """Return the option of the packed scheme."""
        schemes = (packed.scheme,)
        options = self.candidates(problem, schemes, limit)
        return (options or self.candidates(problem, schemes, None))[0]

    def predicted(self, problem: Problem, option: Option, rates: Rates) -> Candidate:
        """Return the option with its seconds predicted by `falcon._core.model`."""
        times = seconds(problem, option, rates)
        return Candidate(option, of_triangle(times, _SYRK) if problem.symmetric else times)

    def kernels(self) -> str:
        """Return the kernels of NumPy's BLAS, where it is known which."""
        blas = numpy_blas()
        return "" if blas is None else str(blas.about.get("architecture", ""))

    def measure(self, problem: Problem, budget: float = 0.5) -> Rates:
        """Time np.matmul, additions in cache, and Strassen's Combine A.

        The bandwidth is measured by combines into new memory, because on most machines the first
        touch of memory dominates their time.
        """
        with limited(problem.threads):
            return measure(problem.operand, budget)

    def identity(self, device: int | None = None, /) -> dict[str, str]:
        """Return what a stored measurement depends on: NumPy and its BLAS."""
        return {"numpy": np.__version__, "blas": blas_name()}


@dataclass(frozen=True)
class _Stages:
    """Block sizes and buffers for chunks of a given size."""

    scheme: Scheme
    rows: int  # of a block of A and C
    columns: int  # of a block of B and C
    inner: int  # columns of a block of A, rows of a block of B
    scratch: tuple[tuple[int, int, int], ...]  # strips of Combine A, B, H
    itemsize: int

    @classmethod
    def of(cls, problem: Problem, scheme: Scheme, chunks: tuple[int, int, int]) -> _Stages:
        M, N, K = chunks
        m, k, n = scheme.format
        rows, columns, inner = -(-M // m), -(-N // n), -(-K // k)
        itemsize = problem.operand.itemsize
        accumulate = K < problem.K
        # The last chunk of a dimension may be smaller, so any block may turn out ragged.
        shapes = (
            (combine_a(scheme), m * k, rows, inner, False),
            (combine_b(scheme), k * n, inner, columns, False),
            (combine_c(scheme), m * n, rows, columns, accumulate),
        )
        even = M % m == N % n == K % k == 0 and all(
            chunk and size % chunk == 0
            for size, chunk in zip((problem.M, problem.N, problem.K), chunks, strict=True)
        )
        scratch = tuple(
            (
                scratch_slots(program, 0 if even else blocks, accumulate=acc),
                strip_rows(program.n_inputs, height, width, itemsize),
                width,
            )
            for program, blocks, height, width, acc in shapes
        )
        return cls(scheme, rows, columns, inner, scratch, itemsize)

    @property
    def buffers(self) -> tuple[tuple[int, int, int], ...]:
        """Shapes of At, Bt and H."""
        r = self.scheme.rank
        return (
            (r, self.rows, self.inner),
            (r, self.inner, self.columns),
            (r, self.rows, self.columns),
        )

    @property
    def workspace(self) -> int:
        """Bytes of At, Bt, H and the largest scratch."""
        elements = sum(prod(shape) for shape in self.buffers) + max(prod(x) for x in self.scratch)
        return elements * self.itemsize

    def carve(self, memory: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return At, Bt and H, and the scratch of each combine, in the workspace."""
        views, offset = [], 0
        for shape in self.buffers:
            views.append(memory[offset : offset + prod(shape)].reshape(shape))
            offset += prod(shape)
        rest = memory[offset:]
        return views, [rest[: prod(shape)].reshape(shape) for shape in self.scratch]


def _chunks_within(problem: Problem, scheme: Scheme, limit: int) -> tuple[int, int, int] | None:
    """Halve the largest dimension until the workspace fits; None if it never does."""
    chunks = [problem.M, problem.N, problem.K]
    dims = (scheme.m, scheme.n, scheme.k)
    room = limit - finish_bytes(problem)
    while _Stages.of(problem, scheme, tuple(chunks)).workspace > room:  # type: ignore[arg-type]
        sizes = [chunk / d for chunk, d in zip(chunks, dims, strict=True)]
        largest = max(range(3), key=lambda axis: sizes[axis])
        if sizes[largest] < 2 * _SMALLEST_BLOCK:
            return None
        half = -(-chunks[largest] // 2)
        chunks[largest] = -(-half // dims[largest]) * dims[largest]
    cuts = (
        -(-size // chunk)
        for size, chunk in zip((problem.M, problem.N, problem.K), chunks, strict=True)
        if chunk
    )
    return None if prod(cuts) > _MOST_CHUNKS else tuple(chunks)  # type: ignore[return-value]


def _multiply(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, out: np.ndarray, alpha: Any
) -> bool:
    """Scale the operands if necessary, and run the four stages over all chunks.

    Returns False if the product must be classical: the norms of the operands are too uneven and
    cannot be scaled within the limit, a non-finite value was found, or memory is short.
    """
    problem, scheme = plan.problem, plan.scheme
    assert scheme is not None  # guarded by the caller; for type checkers
    stages = _Stages.of(problem, scheme, plan.option.chunks)
    try:
        memory = np.empty(stages.workspace // stages.itemsize, problem.operand.numpy)
    except MemoryError:
        return False
    scaling = _scaling_of(plan, a, b, memory, stages)
    if scaling is None or not has_room(plan, scaling):
        return False
    dtype = problem.operand.numpy
    a = scaling.of_rows(a, dtype)
    b = b.payload if isinstance(b, PackedOperand) else scaling.of_columns(b, dtype)
    done = _run_stages(plan, stages, memory, a, b, out, 1 if scaling else alpha)
    if done and scaling:
        scaling.undo(out)
        if alpha != 1:
            np.multiply(out, alpha, out=out)
    return done


def _scaling_of(
    plan: Plan, a: np.ndarray, b: np.ndarray | PackedOperand, memory: np.ndarray, stages: _Stages
) -> Scaling | None:
    """Return how the operands are scaled, by norms that are formed in the workspace."""
    packed = b if isinstance(b, PackedOperand) else None
    if not plan.guarded:
        return Scaling(columns=None if packed is None else packed.column_powers)
    room = memory.view(np.uint8)[: memory.nbytes // 8 * 8].view(np.float64)
    M, N = plan.problem.M, plan.problem.N
    if room.size < (M if packed is not None else M + N):
        return None
    rows = squared_norms(a, 0, room[:M])
    columns = (
        b.column_norms if isinstance(b, PackedOperand) else squared_norms(b, 1, room[M : M + N])
    )
    return judged(plan, rows, columns, packed, (stages.rows, stages.columns))


def _run_stages(
    plan: Plan,
    stages: _Stages,
    memory: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    alpha: Any,
) -> bool:
    problem, scheme = plan.problem, stages.scheme
    rows, columns, inner = plan.option.chunks
    (at, bt, h), (scratch_a, scratch_b, scratch_c) = stages.carve(memory)
    programs = combine_a(scheme), combine_b(scheme), combine_c(scheme)
    m, k, n = scheme.format
    finish = _finisher(problem, alpha, plan.options.check)
    for i in range(0, problem.M, rows):
        for l in range(0, problem.K, inner):
            a_blocks = _blocks(a[i : i + rows, l : l + inner], m, k, stages.rows, stages.inner)
            run(programs[0], a_blocks, list(at), scratch_a)
            for j in range(0, problem.N, columns):
                b_chunk = b[l : l + inner, j : j + columns]
                b_blocks = _blocks(b_chunk, k, n, stages.inner, stages.columns)
                run(programs[1], b_blocks, list(bt), scratch_b)
                original.matmul(at, bt, out=h)
                c_chunk = out[i : i + rows, j : j + columns]
                c_blocks = _blocks(c_chunk, m, n, stages.rows, stages.columns)
                last = l + inner >= problem.K
                if not run(
                    programs[2],
                    list(h),
                    c_blocks,
                    scratch_c,
                    accumulate=l > 0,
                    finish=finish if last else None,
                ):
                    return False
    return True


def _blocks(x: np.ndarray, p: int, q: int, height: int, width: int) -> list[np.ndarray]:
    """Return p x q views of blocks of nominal size; those at the edge may be smaller or empty."""
    return [
        x[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(p)
        for j in range(q)
    ]


def _finisher(problem: Problem, alpha: Any, check: str) -> Callable[[np.ndarray], bool] | None:
    """Return a function that scales a finished strip of C by alpha and tests for NaN and Inf."""
    scale = alpha != 1
    test = check != "none" and not problem.is_exact
    if not scale and not test:
        return None

    def finish(strip: np.ndarray) -> bool:
        # A non-finite input or an overflowed sum always leaves a trace here, because NaN and Inf
        # never cancel to a finite number; the whole product is then redone classically.
        if test and not np.isfinite(strip).all():
            return False
        if scale:
            np.multiply(strip, alpha, out=strip)
        return True

    return finish
