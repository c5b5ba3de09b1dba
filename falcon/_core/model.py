"""The cost model: seconds per stage of a method.

docs/decision.md has the formulas, `formulas.py` implements them. With omega = 1 and only F*, F+ and
beta given, stages are those of FalconGEMM (arXiv:2605.06057), equations (8) to (10). Additions are
counted after common-subexpression elimination, as they run. A BLAS's packing is part of F*.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

from falcon.schemes import Scheme

from .formulas import Counts, Cut, Machine, stages, within
from .plan import Method
from .problem import Problem
from .rates import Rates

Seconds = tuple[tuple[str, float], ...]

STAGES = ("combine A", "combine B", "multiply", "combine H")
# Before them "auto" measures norms of rows and columns: what an element of A, or of a B that is not
# packed, then takes, in elements that a combine moves. They are summed while panels are formed.
NORMS = 0.6
CLASSICAL_STAGES = ("pack A", "pack B", "multiply", "store C")


@lru_cache(maxsize=1024)
def counts(scheme: Scheme | None) -> Counts:
    """Return a scheme as the model needs it; None is the classical algorithm."""
    if scheme is None:
        return Counts(1, 1, 1, 1, 0, 0, 0)
    u, v, w = (sums.additions for sums in scheme.shared_sums)
    return Counts(scheme.m, scheme.k, scheme.n, scheme.rank, u, v, w)


def seconds(problem: Problem, method: Method, rates: Rates) -> Seconds:
    """Predict the seconds of each stage of `method`, as if "auto" had chosen it: with norms.

    `rates`: those of its backend for the problem.
    """
    cut = Cut(
        (problem.M, problem.N, problem.K),
        1 if problem.reproducible else problem.threads,
        problem.packed,
        method.chunks,
        method.again,
    )
    times = stages(Machine(rates), counts(method.stored), cut)
    if method.scheme is None and not method.fused_output:
        return (("multiply", times[2]),)
    names = CLASSICAL_STAGES if method.scheme is None else STAGES
    found = tuple(zip(names, times, strict=True))
    if method.is_plain or problem.is_exact:
        return found
    return (("norms", norms(problem, rates)), *found)


def norms(problem: Problem, rates: Rates) -> float:
    """Predict the seconds in which norms of rows and columns are measured."""
    measured = problem.M * problem.K + problem.K * problem.N * (not problem.packed)
    return NORMS * measured / rates.bandwidth


def of_triangle(times: Seconds, share: float) -> Seconds:
    """Return the stages of a symmetric product, of which only a share is multiplied and stored."""
    halved = "multiply", "store C"
    return tuple((name, time * share if name in halved else time) for name, time in times)


def bounds(
    problem: Problem,
    schemes: tuple[Counts, ...],
    rates: Rates,
    *,
    limit: float = inf,
    room: float = inf,
    least: float = 1.0,
    most: float = inf,
) -> list[tuple[float, int]]:
    """Return lower bounds, in seconds, with the index of their scheme; none above `limit`.

    That is the time of the whole problem, without imbalance of threads; not cut into chunks, or as
    room for so many elements of panels asks for it: `falcon._core.formulas.within`.
    """
    whole = (problem.M, problem.N, problem.K)
    cut = Cut(whole, 1, problem.packed, whole, (1, 1, 1))
    return within(Machine(rates), schemes, cut, limit, room, least, most)
