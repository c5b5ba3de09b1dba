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
    # Share of a product's time that a scheme of 2.7 times the growth must save.
    growth_price: float = 0.01
    # Share of a product's time that every further copy of B must save which a scheme's panels of a
    # packed operand hold (Strassen: 0.75 of a copy).
    copy_price: float = 0.0
    # The backend predicts by `falcon._core.model` and rounds as `Scheme.rms_growth` assumes, so
    # that the model's bounds and the growth exclude schemes before the backend is asked.
    common_model: bool = True
    # Whether a scheme's workspace holds the panels of a chunk of A and B, of all products: the
    # fewer bytes there are for it, the more chunks.
    holds_panels: bool = False
    # Whether "auto" may multiply float32 by parts.
    by_splits: bool = True
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


def panel_bytes(problem: Problem, counts: Any, compute_type: DType | None = None) -> int:
    """Return the bytes of the panels that a packed B has for a scheme, without padding.

    `compute_type`: as which its elements are multiplied, if not as those of their own type.
    """
    element = (compute_type or problem.operand).panel_bytes
    return round(_copies(counts) * problem.K * problem.N * element)


# Below this size no LCMA was ever faster.
SMALLEST_BLAS = 256
# The same below this much work (Zen 4, over falcon's classical algorithm): 2x3x3:15 ran at 0.95 at
# 900 and 1000 in float32, at 1.15 at 1152; in float64 at 1.00 at 900, 1.06 at 1000.
SMALLEST_BLAS_FLOPS, SMALLEST_SINGLE_FLOPS = 1.0e9, 2.1e9
# Complex products, of which falcon's kernels form four real ones, ran at 0.94 of OpenBLAS's
# speed at 320, at 0.97 to 1.04 at 512, by three at 1.05 to 1.15 at 640 (AMX machine).
SMALLEST_OWN_COMPLEX = 2.5e8

# Up to this much work a product is run without a plan, by falcon's kernels where handing it to
# NumPy would take longer (`falcon_is_tiny`): OpenBLAS's kernels for small matrices end there. What
# is larger, and read in place by falcon's kernels (up to 440^3), ran at 1.03 to 1.5 of OpenBLAS's
# speed (Zen 4, one thread and two).
SMALLEST_PLANNED = 2.0e6

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


def host_policy(problem: Problem, *, has_kernels: bool = True) -> Policy:
    """Return the policy of products in host memory, by fast kernels or by NumPy's loops."""
    if problem.operand.is_complex:
        return PACKED_COMPLEX if problem.packed else COMPLEX
    if not has_kernels:
        return _OTHER
    if problem.packed:
        return PACKED
    return SINGLE if problem.operand is FLOAT32 else BLAS
