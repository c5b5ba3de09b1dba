r"""`error=`: which arithmetic may multiply where the largest error is named, and what it promises.

::

    bfloat16, float32, the elements' own, float64: rungs, each with its promise
      \_ the search compares those that promise the error; a scheme may grow what the rung leaves
      \_ the call measures: lines that err by more, or a sample that does, take the next rung

An error is that of c_ij over ``norm(a_i) norm(b_j)`` (times alpha). The promise is the worst case
(`bound.py`) where that is small enough, where no sample is compared, and where there is no next
rung. Else it is this.

A sum of K products is formed in slices, each from 0, and these are added up. Each of these sums is
rounded, by 0.41 of the unit roundoff u in the RMS. By Cauchy-Schwarz a sum is at most the product
of the norms of those parts of the lines that are in it. So all of them, squared, over the whole
product of norms, are at most ``sqrt(r_i r_j)``, where ``r`` sums up the squares of the share of a
line that is in each sum: the *roundings* of the line, as many as are of the size of the whole
product. Of lines whose parts are alike, in n slices of k steps, they are ``k / (3 n) + n / 3``; of
a line with one large element, K. They are measured in each call, for all lines. The RMS error of
classical sums is at most ::

    0.41 u sqrt(r)

With a scheme of growth g those sums are of lines of blocks, which are parallel where lines are: ::

    0.41 u sqrt(r + g^2)      where means are subtracted (`centring.py`), and r is not far above
                              that of lines whose parts are alike; else r is times g^2, too

The promise is seven times that; twice as much for complex numbers; and besides what rounding the
elements to another type can be at most, 2 u of that type, and what rounding the result can.

What is not in it are roundings that depend on one another: all of constant lines have one sign. A
sample looks at some lines, among them those with the most and the fewest roundings, which have the
largest elements, or those most alike (`sampled.py`).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, sqrt
from typing import Any

from .arithmetic import TF32
from .centring import has_means
from .dtypes import BY_ARITHMETIC_ON_GPUS, FLOAT32, FLOAT64, RUNGS, DType
from .options import Options
from .problem import Problem

# The largest of 10^7 normal errors is 5.3 times their RMS. A rounding is so much of its bound.
_LARGEST, _ROUNDING = 7.0, 0.41
# Roundings of lines without structure are at most so many times those of lines whose parts are
# alike; beyond, few elements are most of a line, and what a scheme adds to sums counts in full.
_TYPICAL, _FEW = 2.0, 1.5
# From so many operations and lines on a sample and its measurement cost little.
_LEAST_COMPARED, _FEWEST_LINES = 2e8, 128
# Terms of integers of 8 bits whose sums have 32.
LONGEST = 2**17 - 1
# Growth is limited in such steps, so that the sets of schemes that keep a limit are few.
_STEP, _MOST_GROWTH = 8, 64.0


def is_bound(problem: Problem, options: Options) -> bool:
    """Whether the options name an error that decides how a problem is multiplied."""
    is_open = options.arithmetic == "auto" and options.scheme in ("auto", "classical")
    return options.error is not None and is_open and not problem.is_exact


def rungs_of(problem: Problem) -> tuple[DType, ...]:
    """Return the rows that round the elements of a problem, to another type or to TF32."""
    if problem.is_wide or problem.weighted or problem.reproducible == "rows":
        return ()
    if problem.device is None:
        return RUNGS.get(problem.operand, ())
    return (BY_ARITHMETIC_ON_GPUS[TF32.name],) if problem.operand is FLOAT32 else ()


def promise(
    problem: Problem,
    method: Any,
    growth: float = 1.0,
    roundings: float | None = None,
    *,
    centred: bool,
) -> float:
    """Return the largest error of a method with a growth, over the norms.

    `roundings`: what was measured of lines; None: of lines without structure.
    """
    scale, typical, rest = _squares(problem, method)
    walk = growth * growth
    count = typical if roundings is None else roundings
    is_walk = not centred or count > _FEW * typical
    return scale * sqrt(count * (walk if is_walk else 1.0) + walk) + rest


def may_be_integers(problem: Problem) -> bool:
    """Whether floats may be multiplied as integers of 8 bits (`quantised.py`)."""
    p = problem
    is_plain = p.device is None and not (p.symmetric or p.packed or p.weighted)
    is_float = p.operand is p.result and p.operand in (FLOAT32, FLOAT64)
    return is_plain and is_float and p.reproducible != "rows" and 0 < p.K <= LONGEST


def most_roundings(problem: Problem, method: Any) -> int:
    """Return the most roundings of any line: of one whose first element is all of it."""
    return problem.K + ceil(problem.K / (method.slice or max(problem.K, 1)))


def may_compare(problem: Problem, options: Options) -> bool:
    """Whether some entries of a product can be compared, and all made again."""
    # What is made again must not overwrite operands, nor c.
    copies = problem.out_overlaps_c or not problem.out_direct
    lines = min(problem.M, problem.N, problem.K)
    is_large = lines >= _FEWEST_LINES and problem.single.flops >= _LEAST_COMPARED
    able = problem.device is None and not problem.weighted
    is_large = is_large or problem.packed
    return is_large and able and not (copies and options.workspace_limit is not None)


def coarser(plan: Any) -> float:
    """Return how much larger errors are by a plan than by the elements' own arithmetic, at most."""
    found = 1.0
    for x in (plan, *(y.plan for y in plan.parts)):
        p, row = x.problem, x.method.compute_type
        if row is not None and row.converts and not p.is_exact:
            own = replace(x.method, compute_type=None)
            by, usual = (promise(p, y, x.growth, centred=False) for y in (x.method, own))
            found = max(found, by / usual)
        most = None if x.rewrite is None else x.rewrite.most_error(x)
        if most is not None:
            found = max(found, most / promise(p, x.method, centred=False))
    return found


def _squares(problem: Problem, method: Any) -> tuple[float, float, float]:
    """Return the error of one rounding, roundings without structure, and what is added to all."""
    row, own, K = method.compute_type, problem.operand, max(problem.K, 1)
    unit = (own if row is None else row).summed.unit_roundoff
    slices, parts = ceil(K / (method.slice or K)), 2.0 if own.is_complex else 1.0
    rest = problem.result.unit_roundoff  # C, and A and B, are rounded
    rest = rest if rest > unit else 0.0
    if row is not None and row.rounded.unit_roundoff > own.unit_roundoff:
        rest += 2.02 * row.rounded.unit_roundoff
    if row is not None and row.unit_roundoff > unit:  # on a GPU, where no sample is compared
        rest += 2 * row.unit_roundoff
    typical = _TYPICAL * (K / slices**2 + slices) / 3
    return parts * _LARGEST * _ROUNDING * unit, typical, parts * rest


def least_growth(row: DType | None) -> float:
    """Return the growth of a rung without a scheme."""
    return 1.0 if row is None or row.arithmetic is None else row.arithmetic.growth


def growth_left(problem: Problem, options: Options, method: Any) -> float:
    """Return the growth that the error leaves in a rung; below its least it errs by too much.

    `method`: the classical one of the rung.
    """
    assert options.error is not None  # for type checkers
    row: DType | None = method.compute_type
    scale, typical, rest = _squares(problem, method)
    square = (max(options.error - rest, 0.0) / scale) ** 2
    if has_means(problem) and not problem.packed:  # they are subtracted
        square -= typical
    else:
        square /= typical + 1.0
    largest = _MOST_GROWTH if (row or problem.operand).rounds_once else 1.0
    most = min(floor(_STEP * sqrt(max(square, 0.0))) / _STEP, largest)
    return min(most, options.max_growth) if "max_growth" in options.given else most
