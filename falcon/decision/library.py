"""Who multiplies classically: falcon's own kernels, or the library of the arrays (a BLAS).

The rules of sizes between these two are here, each with the measurement that it comes from;
`_loops.c` is handed the numbers that it needs. Products of a microsecond, which the engine judges
by its own tiles (`falcon_is_tiny`), come before any plan. Other rules of sizes stand by what they
are for: LCMAs in `_core/policy.py`, few rows and triangles in `_core/problem.py`, other arithmetic
in `ways.py`, booleans and complex by real in `_front`, tensors in `torch/ops.py`.
"""

from __future__ import annotations

from falcon._core.method import Method
from falcon._core.plan import Backend
from falcon._core.policy import SMALLEST_BLAS_FLOPS, SMALLEST_OWN_COMPLEX, SMALLEST_PLANNED
from falcon._core.problem import Problem, has_few_rows
from falcon._core.rates import Rates

# Where the costs of both are not known (`Rates.classical`), and for few rows:
# where falcon's classical kernels run, and NumPy's BLAS does not (72 small products, Zen 4; NumPy's
# time over falcon's): up to 64 rows, from 5 Mflop on, 0.90 to 1.8; with more rows, from 250 Mflop
# on, 0.95 to 1.13, below 0.87 to 0.97 (384^3, 448^3). Short K costs a kernel that packs 0.4 to
# 0.95, few columns of many rows 0.6 to 1.3. Complex products of few rows 0.48 to 0.89 (Zen 3, 16 to
# 64 rows, K and N 2048): four real ones.
SMALLEST_OWN, THINNEST_OWN, _SHORTEST_OWN, FEW_ROWS = 5.0e6, 8, 64, 64
_SMALLEST_OWN_OF_ROWS, _FEWEST_COLUMNS = 2.5e8, 64

# Batches: from this many seconds of np.matmul's time on, and up to this much work of a product.
# np.matmul's time (Zen 4): seconds of each product, of an operation on a byte of its type by a
# BLAS, which runs on one thread where products are small, and of an operation in loops.
LEAST_BATCH, _LARGEST_OF_BATCH = 20e-6, 2.0 * 256**3
NUMPY_PRODUCT, BLAS_FLOP_BYTE, LOOP_FLOP = 40e-9, 2.5e-12, 3.5e-10
# The same for np.matmul's loops on falcon: from them to Python takes 10 us longer, of which threads
# must gain more (Zen 5 takes 0.4 of these seconds, Zen 3 twice as many).
LEAST_BATCH_OF_LOOPS = 60e-6
# The same for torch's tensors: torch.bmm runs on all threads, and a call takes falcon 15 us longer.
LEAST_BATCH_OF_TENSORS = 400e-6
# Operations up to which NumPy's loops multiply a matrix of integers by a vector, or matrices of 8
# and 16 bits, before falcon's engine has packed one (Zen 4: 0.1 to 0.3 us each).
_LOOPS_FLOPS = 512


def is_faster(problem: Problem, engine: Backend, ratio: float | None = None) -> bool:
    """Whether a backend's own classical kernels take no longer than the library, on the host.

    `ratio`: see `library_over`; where it is known, it stands for most of the rules.
    """
    operand, is_batch = problem.operand, problem.count > 1
    if engine.is_library or (is_batch and _is_for_loops(problem)):
        return False
    if not operand.has_blas:  # NumPy multiplies in loops, a hundred times slower
        return True
    if is_batch and problem.symmetric in ("lower", "upper"):  # np.matmul writes all of C
        return True
    if engine.kernels() == "generic" or (problem.symmetric and operand.is_complex):
        return False  # BLAS computes one triangle alone
    if is_batch and min(problem.M, problem.N) == 1:
        return False  # bound by memory
    if is_batch and problem.flops <= _LARGEST_OF_BATCH and _is_for_engine(problem):
        return True
    own = has_own_kernels(problem)
    if ratio is not None and not (own and problem.M <= FEW_ROWS):
        return ratio >= 1
    return own or _has_better_kernels(problem, engine)


def _is_for_engine(problem: Problem) -> bool:
    """Whether the engine multiplies a batch of small products at once, on all threads."""
    # Of x.T @ x np.matmul computes one triangle (300 of 30^3: 0.75 of the engine's time, Zen 3).
    at_once = problem.threads > 1 and not problem.symmetric
    if problem.operand.is_complex:  # A and C are read as real matrices, whose rows are contiguous
        by_rows = problem.a_direct and not (problem.layout[0] or problem.layout[2])
        at_once = at_once and by_rows and not problem.buffered
    return at_once


def _has_better_kernels(problem: Problem, engine: Backend) -> bool:
    """Whether a product is tiny, or one whose kernels need not pack an operand."""
    is_complex = problem.operand.is_complex
    if problem.flops <= SMALLEST_PLANNED:
        other = problem.count > 1 or problem.packed or is_complex or problem.symmetric
        in_place = problem.a_strided and problem.b_strided and problem.out_direct
        return in_place and not other and _classical(problem, engine).is_tiny
    thin = problem.M == 1 or problem.N < THINNEST_OWN or problem.packed or is_complex
    if not thin and problem.flops < SMALLEST_BLAS_FLOPS and _classical(problem, engine).in_place:
        return True
    few_rows = has_few_rows(problem.M, problem.N, problem.K, problem.operand.itemsize)
    return few_rows and _classical(problem, engine).b_in_place


def has_costs(problem: Problem) -> bool:
    """Whether a product is one that `Rates.classical` is measured for."""
    row, other = problem.operand, problem.packed or problem.symmetric or problem.is_wide
    is_real = row.has_blas and not row.is_complex and problem.device is None
    is_matrix = problem.count == 1 < min(problem.M, problem.N)
    return is_real and is_matrix and not other and problem.flops > SMALLEST_PLANNED


def library_over(problem: Problem, engine: Rates, library: Rates) -> float | None:
    """Predict the library's seconds over those of falcon's kernels, by rates of one machine.

    None: the costs are not known.
    """
    M, N, K = problem.M, problem.N, problem.K
    mine, others = (x.classical_seconds(M, N, K) for x in (engine, library))
    if mine is None or others is None:
        return None
    copied = M * K * (not problem.a_direct) + K * N * (not problem.b_direct)
    return (others + copied / library.bandwidth) / mine


def is_long_batch(problem: Problem, least: float = LEAST_BATCH) -> bool:
    """Whether np.matmul takes at least so many seconds for a batch."""
    operand = problem.operand
    per_flop = BLAS_FLOP_BYTE * operand.itemsize if operand.has_blas else LOOP_FLOP
    return problem.count * (NUMPY_PRODUCT + per_flop * problem.flops) >= least


def limits_of_loops() -> tuple[int, float, tuple[float, float, float, float]]:
    """Return from where on NumPy's loops ask falcon: columns, operations, and what a batch takes.

    Of a batch: its least seconds, and np.matmul's of each product and operation (see above).
    """
    batch = LEAST_BATCH_OF_LOOPS, NUMPY_PRODUCT, BLAS_FLOP_BYTE, LOOP_FLOP
    return THINNEST_OWN, SMALLEST_OWN, batch


def _is_for_loops(problem: Problem) -> bool:
    """Whether a batch is so short, or its products are so tiny, that NumPy's loops are faster."""
    row, is_vector = problem.operand, min(problem.M, problem.N) == 1
    tiny = row.is_exact and problem.flops <= _LOOPS_FLOPS and (is_vector or row.itemsize < 4)
    return tiny or not is_long_batch(problem)


def has_own_kernels(problem: Problem) -> bool:
    """Whether kernels that pack both operands are at least as fast as a BLAS's."""
    M, N, flops = problem.M, problem.N, problem.flops
    if flops < (SMALLEST_OWN_COMPLEX if problem.operand.is_complex else SMALLEST_OWN):
        return False
    if min(M, N) < THINNEST_OWN or problem.K < _SHORTEST_OWN:
        return False
    if M <= FEW_ROWS:
        return not problem.operand.is_complex
    return N >= _FEWEST_COLUMNS and flops >= _SMALLEST_OWN_OF_ROWS


def _classical(problem: Problem, engine: Backend) -> Method:
    return engine.candidates(problem, (None,), None)[0]
