"""The cost model: seconds per stage of an option.

A scheme <m,k,n;R> cuts the matrices (or a chunk of them, if the backend works in chunks) into
blocks of rows x inner, inner x columns and rows x columns elements (rounded up); u, v, w are the
additions of the three combines. The other symbols are the measured `falcon._core.rates.Rates`.
`formulas.py` implements the formulas. Products are padded to tiles of mr x nr, and cut into s
slices of K::

    r' = ceil(rows / mr) mr      c' = ceil(columns / nr) nr      s = ceil(inner / kc)

==========  =================================================  ===================================
stage       arithmetic                                         memory
==========  =================================================  ===================================
combine A   a_A u rows inner / F+                              a_A MK (1 + R/(mk)) / beta_A
combine B   a_B v inner columns / F+                           a_B KN (1 + R/(kn)) / beta_B
multiply    I R (2 r' c' (inner + s kappa) / F*                R (rows inner + inner columns
            + sigma_A rows inner + sigma_B inner columns
            + sigma_C rows columns)                            + rows columns) / beta
            + R (epsilon_N d(columns, 16) rows inner
            + epsilon_M d(rows, 4) inner columns)
            fused: + a_H w rows columns sigma_H
combine H   w rows columns / F+;                               MN (1 + R/(mn)) / beta;
            fused: a_H w rows columns / F_H'                   fused: a_H MN / beta_C
start       tau
==========  =================================================  ===================================

If the backend works in chunks, r', c' and (inner + s kappa) are summed over the chunks, of which
the last is shorter: the products of all chunks take ``sum r' sum c' sum (inner + s kappa)``.

A combine takes ``omega max(arithmetic, memory) + (1 - omega) (arithmetic + memory)``; multiply
takes the larger of both, since kernels fetch the next block while they compute; where sigma was
measured, it is the time for memory too. a_A, a_B, a_H are how often the stage runs because of the
chunks (`Option.again`). beta_A and beta_B are the near rates if all sums take at most `Rates.cache`
bytes, else the far ones; sigma likewise. I = ceil(t/T) T/t is the imbalance of T threads that share
the t = (r'/mr) (c'/nr) tiles of a product.

d(x, y) is the number of binary digits 1 of x mod y.

1/F_H' lies between 1/F_H and 1/F_H far, as `inner` (of whole chunks) lies between 0 and 1024.

The classical algorithm is the scheme <1,1,1;1>. If Combine H is fused, the backend packs operands
itself: the classical combine stages then take 2MK / pi_A and 2KN / pi_B. Otherwise (a BLAS) packing
is part of sigma_A and sigma_B.

With omega = 1 and only F*, F+ and beta given, stages are those of FalconGEMM (arXiv:2605.06057),
equations (8) to (10). Additions are counted after common-subexpression elimination, as they run.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

from falcon.schemes import Scheme

from .formulas import Counts, Cut, Machine, stages, within
from .plan import Option
from .problem import Problem
from .rates import Rates

Seconds = tuple[tuple[str, float], ...]

STAGES = ("combine A", "combine B", "multiply", "combine H", "start")
CLASSICAL_STAGES = ("pack A", "pack B", "multiply", "store C", "start")


@lru_cache(maxsize=1024)
def counts(scheme: Scheme | None) -> Counts:
    """Return a scheme as the model needs it; None is the classical algorithm."""
    if scheme is None:
        return Counts(1, 1, 1, 1, 0, 0, 0)
    u, v, w = (sums.additions for sums in scheme.shared_sums)
    return Counts(scheme.m, scheme.k, scheme.n, scheme.rank, u, v, w)


def seconds(problem: Problem, option: Option, rates: Rates) -> Seconds:
    """Predict the seconds of each stage of `option`; the stages of an LCMA are `STAGES`.

    `option`: only its scheme, chunks, `again` and `fused_output` are used.
    `rates`: of the option's backend, for the problem's dtype and threads.
    """
    M, N, K = problem.M, problem.N, problem.K
    cut = Cut(
        (M, N, K),
        problem.operand.itemsize,
        problem.threads,
        problem.packed,
        option.fused_output,
        option.chunks,
        option.again,
        False,
    )
    x = counts(option.stored)
    first, second, multiply, store, start = stages(Machine(rates), x, cut)
    if any(rates.ragged):
        multiply += _ragged(problem, x, rates)
    if option.scheme is not None:
        return tuple(zip(STAGES, (first, second, multiply, store, start), strict=True))
    if not option.fused_output:
        return (("multiply", multiply), ("start", start))
    pack_a, pack_b = rates.pack or (rates.bandwidth, rates.bandwidth)
    first = option.again[0] * 2.0 * M * K / pack_a
    second = 0.0 if problem.packed else option.again[1] * 2.0 * K * N / pack_b
    return tuple(zip(CLASSICAL_STAGES, (first, second, multiply, store, start), strict=True))


def _ragged(problem: Problem, x: Counts, rates: Rates) -> float:
    """Seconds of the columns and rows that a BLAS multiplies in small kernels, without chunks."""
    rows, inner, columns = -(-problem.M // x.m), -(-problem.K // x.k), -(-problem.N // x.n)
    again_a, again_b = read_again(int(rows), int(columns), int(inner))
    of_columns, of_rows = rates.ragged
    return x.rank * (of_columns * again_a + of_rows * again_b)


def read_again(rows: int, columns: int, inner: int) -> tuple[int, int]:
    """Elements of A and B that a BLAS reads for columns and rows that do not fill its kernels."""
    return (columns % 16).bit_count() * rows * inner, (rows % 4).bit_count() * inner * columns


def of_triangle(times: Seconds, share: float) -> Seconds:
    """Return the stages of a symmetric product, of which only a share is multiplied and stored."""
    halved = "multiply", "store C"
    return tuple((name, time * share if name in halved else time) for name, time in times)


def bounds(
    problem: Problem,
    schemes: tuple[Counts, ...],
    rates: Rates,
    *,
    fused: bool,
    chunked: bool,
    limit: float = inf,
) -> list[tuple[float, int]]:
    """Return lower bounds on the time of all options of these schemes.

    A bound is the time of the whole problem, not cut into chunks, without imbalance of threads.

    `fused`: whether the backend fuses Combine H.
    `chunked`: whether chunks may be so small that their sums fit the cache.
    `limit`: bounds above this many seconds are left out.
    Returns list of (float, int): a bound in seconds, and the index of its scheme.
    """
    whole = (problem.M, problem.N, problem.K)
    itemsize = problem.operand.itemsize
    cut = Cut(whole, itemsize, 1, problem.packed, fused, whole, (1, 1, 1), chunked)
    return within(Machine(rates), schemes, cut, limit)
