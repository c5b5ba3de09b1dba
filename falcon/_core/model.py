"""The cost model: seconds per stage of an option.

A scheme <m,k,n;R> cuts the matrices (or a chunk of them, if the backend works in chunks) into
blocks of rows x inner, inner x columns and rows x columns elements (rounded up); u, v, w are the
additions of the three combines. The other symbols are the `falcon._core.rates.Rates`.
`formulas.py` implements the formulas. Products are padded to tiles of mr x nr::

    r' = ceil(rows / mr) mr      c' = ceil(columns / nr) nr

==========  =================================  ===============================================
stage       arithmetic                         memory
==========  =================================  ===============================================
combine A   a_A u rows inner / F+              a_A MK (1 + R/(mk)) / beta
combine B   a_B v inner columns / F+           a_B KN (1 + R/(kn)) / beta
multiply    I R 2 r' c' inner / F*             R (rows inner + inner columns + rows columns)
                                               / beta
combine H   a_H w rows columns / F+            a_H MN (1 + R/(mn)) / beta; fused: a_H MN / beta
==========  =================================  ===============================================

If the backend works in chunks, r', c' and inner are summed over the chunks, of which the last is
shorter: the products of all chunks take ``sum r' sum c' sum inner``.

A combine takes ``omega max(arithmetic, memory) + (1 - omega) (arithmetic + memory)``; multiply
takes the larger of both, since kernels fetch the next block while they compute. a_A, a_B, a_H are
how often the stage runs because of the chunks (`Option.again`). I = ceil(t/T) T/t is the imbalance
of T threads that share the t = (r'/mr) (c'/nr) tiles of a product.

The classical algorithm is the scheme <1,1,1;1>: if Combine H is fused, the backend packs operands
itself, which is its Combine A and B; a BLAS's packing is part of F*.

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

STAGES = ("combine A", "combine B", "multiply", "combine H")
CLASSICAL_STAGES = ("pack A", "pack B", "multiply", "store C")


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
    cut = Cut(
        (problem.M, problem.N, problem.K),
        1 if problem.reproducible else problem.threads,
        problem.packed,
        option.fused_output,
        option.chunks,
        option.again,
    )
    times = stages(Machine(rates), counts(option.stored), cut)
    if option.scheme is not None:
        return tuple(zip(STAGES, times, strict=True))
    if not option.fused_output:
        return (("multiply", times[2]),)
    return tuple(zip(CLASSICAL_STAGES, times, strict=True))


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
    limit: float = inf,
) -> list[tuple[float, int]]:
    """Return lower bounds on the time of all options of these schemes.

    A bound is the time of the whole problem, not cut into chunks, without imbalance of threads.

    `fused`: whether the backend fuses Combine H.
    `limit`: bounds above this many seconds are left out.
    Returns list of (float, int): a bound in seconds, and the index of its scheme.
    """
    whole = (problem.M, problem.N, problem.K)
    cut = Cut(whole, 1, problem.packed, fused, whole, (1, 1, 1))
    return within(Machine(rates), schemes, cut, limit)
