"""`Policy`: a backend's rules for choosing one of its options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

from falcon.schemes import ComplexScheme

from .dtypes import FLOAT32, DType
from .problem import Problem


@dataclass(frozen=True, slots=True)
class Policy:
    """When a backend's LCMAs are worth comparing, and how much they must gain.

    `falcon.decision.select` applies it.
    """

    smallest: int  # if a dimension is smaller, no LCMA can gain: nothing is compared or measured
    smallest_flops: float  # the same for 2MNK
    smallest_block: int  # least rows, columns and inner length of an LCMA's blocks
    smallest_chunk: int  # the same for the blocks of a chunk, if a workspace limit cuts the problem
    # Whether every scheme nested in Strassen's is a candidate; else only Strassen's in itself.
    nested: bool = True
    nested_block: int = 4  # how many times larger the blocks of nested schemes must be
    # The classical algorithm is chosen unless it is slower by this factor: predictions err.
    least_gain: float = 1.03
    # Share of a product's time that a scheme of e times the growth must save.
    growth_price: float = 0.01
    # Share of a product's time that every further copy of B must save which a scheme's panels of a
    # packed operand hold (Strassen: 0.75 of a copy).
    copy_price: float = 0.0
    # The backend predicts by `falcon._core.model` and rounds as `Scheme.rms_growth` assumes, so
    # that the model's bounds and the growth exclude schemes before the backend is asked.
    common_model: bool = True
    # Whether "auto" may multiply float32 by parts.
    by_parts: bool = True
    # Why the classical algorithm was chosen; why a faster candidate was not.
    no_gain: str = "no scheme is predicted to be faster"
    too_little: str = "faster by too little to be sure"

    def price(self, counts: Any, growth: float = 1.0) -> float:
        """Return by what a predicted time is multiplied for errors, and the memory of B's panels.

        `counts`: a scheme, or what has its `rank`, `k` and `n`; None: the classical algorithm.
        """
        price = 1.0 + self.growth_price * log(max(growth, 1.0))
        return price * (1.0 + self.copy_price * (_copies(counts) - 1.0))

    def why_too_small(self, problem: Problem) -> str | None:
        """Return why no LCMA can be faster at these sizes; None if one may be."""
        if min(problem.M, problem.N, problem.K) < self.smallest:
            return f"a dimension is below {self.smallest}: too small for any LCMA"
        if problem.flops < self.smallest_flops:
            return f"2MNK is below {self.smallest_flops:.1e}: too small for any LCMA"
        return None


def _copies(counts: Any) -> float:
    """Return how many copies of B a scheme's panels hold; see `Policy.price`."""
    if counts is None:
        return 1.0
    # Of a complex B, real and imaginary part: a copy of one is half of a copy of B.
    parts = 2 if isinstance(counts, ComplexScheme) else 1
    return float(counts.rank / (counts.k * counts.n * parts))


# Copies of B that the panels of a packed operand may hold by default: 2.25 are those of 3x4x6:54.
# What fewer and more gain: docs/howto/weights.md.
USUAL_COPIES = 2.5


def panel_bytes(problem: Problem, counts: Any, operand: DType | None = None) -> int:
    """Return the bytes of the panels that a packed B has for a scheme, without padding.

    `operand`: as which its elements are multiplied, if not as those of their own type.
    """
    element = (operand or problem.operand).panel_bytes
    return round(_copies(counts) * problem.K * problem.N * element)


# Below this size no LCMA was ever faster.
SMALLEST_BLAS = 256
# The same below this much work (Zen 4, over falcon's classical algorithm): 2x3x3:15 ran at 0.95 at
# 900 and 1000 in float32, at 1.15 at 1152; in float64 at 1.00 at 900, 1.06 at 1000.
SMALLEST_BLAS_FLOPS, SMALLEST_SINGLE_FLOPS = 1.0e9, 2.1e9
# Where falcon's classical kernels run, and NumPy's BLAS does not (72 small products, Zen 4; NumPy's
# time over falcon's): up to 64 rows, from 5 Mflop on, 0.90 to 1.8; with more rows, from 250 Mflop
# on, 0.95 to 1.13, below 0.87 to 0.97 (384^3, 448^3). Short K costs a kernel that packs 0.4 to
# 0.95, few columns of many rows 0.6 to 1.3.
SMALLEST_OWN, THINNEST_OWN, SHORTEST_OWN, FEW_ROWS = 5.0e6, 8, 64, 64
SMALLEST_OWN_OF_ROWS, FEWEST_COLUMNS = 2.5e8, 64
# The same for complex products, of which falcon's kernels form four real ones: they ran at 0.94 of
# OpenBLAS's speed at 320, at 0.97 to 1.04 at 512, by three at 1.05 to 1.15 at 640 (AMX machine).
SMALLEST_OWN_COMPLEX = 2.5e8

# Up to this much work a product is run without a plan, by falcon's kernels where handing it to
# NumPy would take longer (`falcon_is_tiny`): OpenBLAS's kernels for small matrices end there. What
# is larger, and read in place by falcon's kernels (up to 640^3), ran at 1.03 to 1.5 of OpenBLAS's
# speed (Zen 4, one thread and two).
SMALLEST_PLANNED = 2.0e6

# Batches: from this many seconds of np.matmul's time on, and up to this much work of a product.
# np.matmul's time (Zen 4): seconds of each product, of an operation on a byte of its type by a
# BLAS, which runs on one thread where products are small, and of an operation in loops.
LEAST_BATCH, LARGEST_OF_BATCH = 20e-6, 2.0 * 256**3
# The same for torch's tensors: torch.bmm runs on all threads, and a call takes falcon 15 us longer.
LEAST_BATCH_OF_TENSORS = 400e-6
NUMPY_PRODUCT, BLAS_FLOP_BYTE, LOOP_FLOP = 40e-9, 2.5e-12, 3.5e-10

# Products of smaller blocks are too small for any kernel to be fast; another level needs blocks of
# four times that size to save anything. Predictions err by about 3 %.
BLAS = Policy(
    SMALLEST_BLAS,
    SMALLEST_BLAS_FLOPS,
    smallest_block=64,
    smallest_chunk=64,
)
SINGLE = replace(BLAS, smallest_flops=SMALLEST_SINGLE_FLOPS)
# Panels of a packed operand stay in memory. Who allows more (`memory_limit`) wants the time.
PACKED = replace(BLAS, copy_price=0.01)
# NumPy multiplies integers without BLAS, a hundred times slower: LCMAs gain at smaller sizes.
_OTHER = Policy(96, 0.0, smallest_block=32, smallest_chunk=32)


# Complex products take four times the work of real ones.
COMPLEX = replace(BLAS, smallest_flops=SMALLEST_OWN_COMPLEX)
PACKED_COMPLEX = replace(COMPLEX, copy_price=PACKED.copy_price)


def has_own_kernels(M: int, N: int, K: int, flops: float, *, is_complex: bool = False) -> bool:
    """Whether falcon's classical kernels are at least as fast as a BLAS's at these sizes."""
    if flops < (SMALLEST_OWN_COMPLEX if is_complex else SMALLEST_OWN):
        return False
    if min(M, N) < THINNEST_OWN or K < SHORTEST_OWN:
        return False
    return M <= FEW_ROWS or (N >= FEWEST_COLUMNS and flops >= SMALLEST_OWN_OF_ROWS)


def may_be_in_place(problem: Problem) -> bool:
    """Whether falcon's classical kernels beat a BLAS's if they need not pack an operand."""
    is_thin = problem.M == 1 or problem.N < THINNEST_OWN
    is_other = problem.packed or problem.operand.is_complex
    return SMALLEST_PLANNED < problem.flops < SMALLEST_BLAS_FLOPS and not (is_thin or is_other)


# Operations up to which NumPy's loops multiply a matrix of integers by a vector, or matrices of 8
# and 16 bits, before falcon's engine has packed one (Zen 4: 0.1 to 0.3 us each).
_LOOPS_FLOPS = 512


def are_for_loops(problem: Problem) -> bool:
    """Whether the products of a batch are so tiny that NumPy's loops are faster."""
    row, is_vector = problem.operand, min(problem.M, problem.N) == 1
    return row.is_exact and problem.flops <= _LOOPS_FLOPS and (is_vector or row.itemsize < 4)


def is_long_batch(problem: Problem, count: int, least: float = LEAST_BATCH) -> bool:
    """Whether np.matmul takes at least so many seconds for a batch of so many products."""
    operand = problem.operand
    per_flop = BLAS_FLOP_BYTE * operand.itemsize if operand.has_blas else LOOP_FLOP
    return count * (NUMPY_PRODUCT + per_flop * problem.flops) >= least


def host_policy(problem: Problem, *, has_kernels: bool = True) -> Policy:
    """Return the policy of products in host memory, by fast kernels or by NumPy's loops."""
    if problem.operand.is_complex:
        return PACKED_COMPLEX if problem.packed else COMPLEX
    if not has_kernels:
        return _OTHER
    if problem.packed:
        return PACKED
    return SINGLE if problem.operand is FLOAT32 else BLAS
