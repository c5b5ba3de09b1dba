"""The cost model: seconds per stage of an option, by FalconGEMM's equations.

Symbols: F* = `Rates.multiply`, F+ = `Rates.add`, beta = `Rates.bandwidth`; a stage costs the larger
of operations over rate and elements over bandwidth.

==========  =================================  ==================================================
stage       operations                         elements
==========  =================================  ==================================================
combine A   additions(U) (M/m)(K/k)            MK (1 + R/(mk))
combine B   additions(V) (K/k)(N/n)            NK (1 + R/(kn))
multiply    2R MNK/(mkn)                       R (MK/(mk) + KN/(kn) + MN/(mn))
combine H   additions(W) (M/m)(N/n)            MN (1 + R/(mn)); nothing when fused
==========  =================================  ==================================================

Source: FalconGEMM (arXiv:2605.06057), section on the decision module. Additions are counted after
common-subexpression elimination, because that is what runs.
"""

from __future__ import annotations

from math import ceil

from falcon._plan import Option, Rates
from falcon._problem import Problem

Seconds = tuple[tuple[str, float], ...]


def seconds(problem: Problem, option: Option, rates: Rates) -> Seconds:
    """Predict the seconds of each stage of `option`."""
    M, N, K = problem.M, problem.N, problem.K
    if option.scheme is None:
        elements = M * K + K * N + M * N
        return (("multiply", max(problem.flops / rates.multiply, elements / rates.bandwidth)),)
    s = option.scheme
    m, k, n = s.format
    sums_a, sums_b, sums_c = (x.additions for x in s.shared_sums)
    # Padding to whole blocks is work too.
    rows, columns, inner = ceil(M / m), ceil(N / n), ceil(K / k)
    again = ceil(M / max(option.chunks[0], 1))  # Combine B is repeated for every chunk of rows

    def cost(operations: float, rate: float, elements: float) -> float:
        return max(operations / rate, elements / rates.bandwidth)

    combine_a = cost(sums_a * rows * inner, rates.add, M * K + s.rank * rows * inner)
    combine_b = cost(sums_b * inner * columns, rates.add, K * N + s.rank * inner * columns)
    multiply = cost(
        2.0 * s.rank * rows * inner * columns,
        rates.multiply,
        s.rank * (rows * inner + inner * columns + rows * columns),
    )
    fused = option.fused_output
    combine_c = cost(
        sums_c * rows * columns, rates.add, M * N + (0 if fused else s.rank * rows * columns)
    )
    return (
        ("combine A", combine_a),
        ("combine B", again * combine_b),
        ("multiply", multiply),
        ("combine H", combine_c),
    )
