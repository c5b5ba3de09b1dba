"""The cost model: seconds per stage of an option.

A scheme <m,k,n;R> cuts the matrices (a chunk of them, where the backend works in chunks) into
blocks of rows x inner, inner x columns and rows x columns elements (ceilings); u, v, w are the
additions of the three combines. The other symbols are the measured `falcon._core.rates.Rates`; the
formulas themselves stand in `formulas.py`. Products are padded to tiles of mr x nr, and cut into s
slices of K::

    r' = ceil(rows / mr) mr      c' = ceil(columns / nr) nr      s = ceil(inner / kc)

==========  =================================================  ===================================
stage       arithmetic                                         memory
==========  =================================================  ===================================
combine A   a_A u rows inner / F+                              a_A MK (1 + R/(mk)) / beta_A
combine B   a_B v inner columns / F+                           a_B KN (1 + R/(kn)) / beta_B
multiply    I R (2 r' c' (inner + s kappa) / F*                R (rows inner + inner columns
            + sigma_A rows inner + sigma_B inner columns       + rows columns) / beta
            + sigma_C rows columns)
combine H   w rows columns / F+;                               MN (1 + R/(mn)) / beta;
            fused: a_H w rows columns / F_H                    fused: a_H MN / beta_C
start       tau
==========  =================================================  ===================================

Where the backend works in chunks, lines, tiles and slices are summed over them, the last one being
shorter: ``sum r' sum c' sum (inner + s kappa)`` are the products of all.

A combine takes ``omega max(arithmetic, memory) + (1 - omega) (arithmetic + memory)``, multiply the
larger of both, since kernels fetch the next block while they compute. a_A, a_B, a_H are how often
chunks make the stage run again (`Option.again`). beta_A and beta_B are the near or the far ones, as
all sums take at most `Rates.cache` bytes or more. I = ceil(t/T) T/t is the threads' imbalance: T
threads share the t = (r'/mr) (c'/nr) tiles of a product.

The classical algorithm is the scheme <1,1,1;1>. Where Combine H is fused the backend packs operands
itself: its combine stages are then 2MK / pi_A and 2KN / pi_B. Otherwise (a BLAS) they are part of
sigma_A and sigma_B.

With omega = 1 and nothing but F*, F+ and beta given, stages are those of FalconGEMM
(arXiv:2605.06057), equations (8) to (10). Additions are counted after common-subexpression
elimination, because that is what runs.
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
    """Return what the model knows of a scheme; None is the classical algorithm."""
    if scheme is None:
        return Counts(1, 1, 1, 1, 0, 0, 0)
    u, v, w = (sums.additions for sums in scheme.shared_sums)
    return Counts(scheme.m, scheme.k, scheme.n, scheme.rank, u, v, w)


def seconds(problem: Problem, option: Option, rates: Rates) -> Seconds:
    """Predict the seconds of each stage of `option`; an LCMA's are `STAGES`.

    Parameters
    ----------
    problem : Problem
    option : Option
        Its scheme, chunks, `again` and `fused_output` count.
    rates : Rates
        Of the option's backend, for the problem's dtype and threads.
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
    found = stages(Machine(rates), counts(option.scheme), cut)
    if option.scheme is not None:
        return tuple(zip(STAGES, found, strict=True))
    _, _, multiply, store, start = found
    if not option.fused_output:
        return (("multiply", multiply), ("start", start))
    pack_a, pack_b = rates.pack or (rates.bandwidth, rates.bandwidth)
    first = option.again[0] * 2.0 * M * K / pack_a
    second = 0.0 if problem.packed else option.again[1] * 2.0 * K * N / pack_b
    return tuple(zip(CLASSICAL_STAGES, (first, second, multiply, store, start), strict=True))


def of_triangle(times: Seconds, share: float) -> Seconds:
    """Return the stages of a symmetric product of which that share is multiplied and stored."""
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
    """Return what no option of these schemes can be faster than: the whole problem, balanced.

    Parameters
    ----------
    schemes : tuple of Counts
    fused : bool
        Whether the backend fuses Combine H.
    chunked : bool
        Chunks may be so small that sums of them fit the cache which those of the whole do not.
    limit : float
        Bounds above this many seconds are left out.

    Returns
    -------
    list of (float, int)
        Bounds in seconds, and which scheme's.
    """
    whole = (problem.M, problem.N, problem.K)
    itemsize = problem.operand.itemsize
    cut = Cut(whole, itemsize, 1, problem.packed, fused, whole, (1, 1, 1), chunked)
    return within(Machine(rates), schemes, cut, limit)
