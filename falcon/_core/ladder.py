r"""`error=`: which arithmetic may multiply where the largest error is named, and what it promises.

::

    bfloat16, float32, the elements' own, float64: rungs, each with its promise
      \_ the search compares those that promise the error; a scheme may grow what the rung leaves
      \_ the call measures: norms out of range, or a sample that errs by more, take the next rung

Where no sample is compared, or there is no next rung, the promise is the worst case (`bound.py`).
Else it is this.

An error is that of c_ij over ``norm(a_i) norm(b_j)`` (times alpha). A sum of K products is formed
in slices of some hundred steps, each from 0, and these are added up. Of lines that are parallel,
partial sums grow with the step: that is the largest that a rounding can be, for all data. Then with
`u` the unit roundoff, slices of k steps and n of them, the RMS error of classical sums is ::

    0.41 u sqrt(k / (3 n) + n / 3)        of parallel lines; 0.41 u or less of others
    0.41 u sqrt(2 / K)                    of operands rounded to a type with that u

since roundings are 0.41 of their bound in the RMS. A scheme's growth multiplies the last two, and
where no means are subtracted (`centring.py`) all. The promise is seven times the root of the sum of
their squares. Of bfloat16 it is the worst case, 2 u without a scheme: where few elements are most
of a line, as in lognormal data, errors of some entries are far above the RMS, and a sample misses
them.
"""

from __future__ import annotations

from math import ceil, floor, sqrt
from typing import Any

from .arithmetic import TF32
from .centring import has_means
from .dtypes import BY_ARITHMETIC_ON_GPUS, FLOAT32, RUNGS, DType
from .options import Options
from .problem import Problem
from .rates import SLICE

# The largest of 10^7 normal errors is 5.3 times their RMS. A rounding is so much of its bound.
_LARGEST, _ROUNDING = 7.0, 0.41
# From so many operations and entries on a sample of 16 rows by 8 columns costs little.
_LEAST_COMPARED, _FEWEST_ENTRIES = 2.5e7, 2**17
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


def promise(problem: Problem, row: DType | None, growth: float = 1.0, *, centred: bool) -> float:
    """Return the largest error of a rung, over the norms; `row`: None, the elements' own."""
    parallel, others, rest = _squares(problem, row)
    walk = growth * growth
    return sqrt(parallel * (1.0 if centred else walk) + others * walk) + rest


def may_compare(problem: Problem, options: Options) -> bool:
    """Whether some entries of a product can be compared, and all made again."""
    # What is made again must not overwrite operands, nor c.
    copies = problem.out_overlaps_c or not problem.out_direct
    is_large = problem.M * problem.N >= _FEWEST_ENTRIES and problem.flops >= _LEAST_COMPARED
    able = problem.device is None and not problem.weighted
    return is_large and able and not (copies and options.workspace_limit is not None)


def coarser(plan: Any) -> float:
    """Return how much larger errors are by a plan than by the elements' own arithmetic, at most."""
    found = 1.0
    for x in (plan, *(y.plan for y in plan.parts)):
        p, row = x.problem, x.method.compute_type
        if row is not None and row.converts and not p.is_exact:
            by, own = (promise(p, y, x.growth, centred=False) for y in (row, None))
            worst = 0.0 if row.rounds_once else 2 * x.growth * row.rounded.unit_roundoff
            found = max(found, max(by, worst) / own)
    return found


def _squares(problem: Problem, row: DType | None) -> tuple[float, float, float]:
    """Return the squares for parallel lines and for others, and what is added to their root."""
    own, K = problem.operand, max(problem.K, 1)
    unit = (own if row is None else row).summed.unit_roundoff
    how = None if row is None else row.arithmetic
    slices, parts = ceil(K / (SLICE if how is None else how.slice)), 2.0 if own.is_complex else 1.0
    rest = problem.result.unit_roundoff  # C, and A and B, are rounded
    rest = rest if rest > unit else 0.0
    of_operands = 0.0
    if row is not None and row.rounded.unit_roundoff > own.unit_roundoff:
        if row.rounds_once:
            of_operands = 2 / K * row.rounded.unit_roundoff**2
        else:
            rest += 2.02 * row.rounded.unit_roundoff
    if row is not None and row.unit_roundoff > unit:  # on a GPU, where no sample is compared
        rest += 2 * row.unit_roundoff
    scale = (parts * _LARGEST * _ROUNDING) ** 2
    of_parallel = unit * unit * (K / slices**2 + slices) / 3
    return scale * of_parallel, scale * (unit * unit + of_operands), parts * rest


def least_growth(row: DType | None) -> float:
    """Return the growth of a rung without a scheme."""
    return 1.0 if row is None or row.arithmetic is None else row.arithmetic.growth


def growth_left(problem: Problem, options: Options, row: DType | None = None) -> float:
    """Return the growth that the error leaves in a rung; below its least it errs by too much."""
    assert options.error is not None  # for type checkers
    parallel, others, rest = _squares(problem, row)
    square = max(options.error - rest, 0.0) ** 2
    if has_means(problem) and not problem.packed:  # they are subtracted
        square = max(square - parallel, 0.0) / others
    else:
        square /= parallel + others
    largest = _MOST_GROWTH if row is None or row.rounds_once else 1.0
    most = min(floor(_STEP * sqrt(square)) / _STEP, largest)
    return min(most, options.max_growth) if "max_growth" in options.given else most
