"""The cost model: seconds per stage of an option, by FalconGEMM's equations.

Symbols: F* = `Rates.multiply`, F+ = `Rates.add`, beta = `Rates.bandwidth`; a stage costs the larger
of operations over rate and elements over bandwidth.

==========  =================================  ==================================================
stage       operations                         elements
==========  =================================  ==================================================
combine A   additions(U) (M/m)(K/k)            MK (1 + R/(mk))
combine B   additions(V) (K/k)(N/n)            NK (1 + R/(kn))
multiply    2R MNK/(mkn)                       R (MK/(mk) + KN/(kn) + MN/(mn))
combine H   additions(W) (M/m)(N/n)            MN (1 + R/(mn)); MN when fused
==========  =================================  ==================================================

A backend that fuses Combine H adds every product to each block of C that it belongs to: there the
additions of W are ``nnz(W) - mn``, nothing is shared. Its classical algorithm packs A and B first,
at the price of reading and writing them.

A backend that multiplies in chunks repeats Combine B for every chunk of M and Combine H for every
chunk of K.

Source: FalconGEMM (arXiv:2605.06057), section on the decision module. Additions are counted after
common-subexpression elimination, because that is what runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from falcon._plan import Option, Rates
from falcon._problem import Problem
from falcon.schemes import Scheme

Seconds = tuple[tuple[str, float], ...]

STAGES = ("combine A", "combine B", "multiply", "combine H")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the model knows of a scheme, or of many: each a float or an array of floats.

    Attributes
    ----------
    m, k, n, rank : float or ndarray
    sums_a, sums_b, sums_c : float or ndarray
        Additions of the three combines after common-subexpression elimination.
    terms_c : float or ndarray
        Additions of Combine H without it.
    """

    m: Any
    k: Any
    n: Any
    rank: Any
    sums_a: Any
    sums_b: Any
    sums_c: Any
    terms_c: Any

    @classmethod
    def of(cls, schemes: Sequence[Scheme]) -> Facts:
        """Gather the facts of many schemes as arrays."""
        rows = [
            (
                *x.format,
                x.rank,
                *(sums.additions for sums in x.shared_sums),
                x.nnz[2] - x.m * x.n,
            )
            for x in schemes
        ]
        return cls(*np.array(rows, float).reshape(-1, 8).T)


@lru_cache(maxsize=512)
def _facts(scheme: Scheme) -> Facts:
    arrays = Facts.of([scheme])
    return Facts(*(getattr(arrays, name)[0] for name in Facts.__slots__))


def seconds(problem: Problem, option: Option, rates: Rates) -> Seconds:
    """Predict the seconds of each stage of `option`."""
    if option.scheme is None:
        operands = problem.M * problem.K + problem.K * problem.N
        elements = operands + problem.M * problem.N
        if option.fused_output:
            packed = problem.M * problem.K if problem.packed else operands
            return (
                ("pack", 2 * packed / rates.bandwidth),
                ("multiply", problem.flops / rates.multiply),
            )
        return (("multiply", max(problem.flops / rates.multiply, elements / rates.bandwidth)),)
    times = stage_seconds(
        problem, _facts(option.scheme), rates, option.chunks, fused=option.fused_output
    )
    return tuple(zip(STAGES, map(float, times), strict=True))


def stage_seconds(
    problem: Problem,
    facts: Facts,
    rates: Rates,
    chunks: tuple[int, int, int],
    *,
    fused: bool = False,
) -> tuple[Any, Any, Any, Any]:
    """Predict the seconds of the four `STAGES`; arrays in `facts` give arrays."""
    # Floats: the products of three large sizes leave int64.
    M, N, K = float(problem.M), float(problem.N), float(problem.K)
    m, k, n, rank = facts.m, facts.k, facts.n, facts.rank
    # Padding to whole blocks is work too.
    rows, columns, inner = np.ceil(M / m), np.ceil(N / n), np.ceil(K / k)
    again_b, again_h = (
        -(-size // max(chunk, 1))
        for size, chunk in ((problem.M, chunks[0]), (problem.K, chunks[2]))
    )

    def cost(operations: Any, rate: float, elements: Any) -> Any:
        return np.maximum(operations / rate, elements / rates.bandwidth)

    a, b, c = rows * inner, inner * columns, rows * columns  # elements of a block
    return (
        cost(facts.sums_a * a, rates.add, M * K + rank * a),
        (0 if problem.packed else again_b) * cost(facts.sums_b * b, rates.add, K * N + rank * b),
        cost(2.0 * rank * rows * b, rates.multiply, rank * (a + b + c)),
        again_h
        * (
            cost(facts.terms_c * c, rates.add, M * N)
            if fused
            else cost(facts.sums_c * c, rates.add, M * N + rank * c)
        ),
    )
