"""The cost model: seconds per stage of an option.

A scheme <m,k,n;R> cuts the matrices (a chunk of them, where the backend works in chunks) into
blocks of rows x inner, inner x columns and rows x columns elements (ceilings); u, v, w are the
additions of the three combines, c the non-zeros of W less mn. The other symbols are the measured
`falcon._plan.Rates`. Products are padded to tiles of mr x nr, and cut into s slices of K::

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
            fused: a_H c rows columns / F_H                    fused: a_H MN / beta_C
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

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from math import ceil
from typing import Any

import numpy as np

from falcon._plan import Option, Rates
from falcon._problem import Problem
from falcon.schemes import Scheme

Seconds = tuple[tuple[str, float], ...]

_GROUPS = 6  # of schemes, in `floor`

STAGES = ("combine A", "combine B", "multiply", "combine H", "start")
CLASSICAL_STAGES = ("pack A", "pack B", "multiply", "store C", "start")


@dataclass(frozen=True)
class Facts:
    """What the model knows of a scheme, or of many: each a float or an array of floats.

    Attributes
    ----------
    m, k, n, rank : float or ndarray
    sums_a, sums_b, sums_c : float or ndarray
        u, v, w: additions of the three combines after common-subexpression elimination.
    terms_c : float or ndarray
        c: additions of Combine H without it.
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

    @cached_property
    def parts(self) -> np.ndarray:
        """m, n and k by rows."""
        return np.array((self.m, self.n, self.k))

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Additions of the combines by rows: Combine H apart, and fused."""
        first = self.sums_a, self.sums_b
        return np.array((*first, self.sums_c)), np.array((*first, self.terms_c))

    @cached_property
    def least(self) -> list[tuple[float, ...]]:
        """Least R/(mkn), R/(mk), R/(kn), R/(mn), u/(mk), v/(kn), w/(mn), by groups.

        A group is of neighbours in R/(mkn): schemes of few products have many sums.
        """
        m, k, n, rank = self.m, self.k, self.n, self.rank
        products = rank / (m * k * n)
        sums = rank / (m * k), rank / (k * n), rank / (m * n)
        additions = self.sums_a / (m * k), self.sums_b / (k * n), self.sums_c / (m * n)
        facts = np.array((products, *sums, *additions))[:, np.argsort(products)]
        groups = np.array_split(facts, _GROUPS, axis=1)
        return [tuple(x.min(axis=1).tolist()) for x in groups if x.size]


_CLASSICAL = Facts(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)


@lru_cache(maxsize=512)
def _facts(scheme: Scheme | None) -> Facts:
    if scheme is None:
        return _CLASSICAL
    arrays = Facts.of([scheme])
    return Facts(*(float(getattr(arrays, x.name)[0]) for x in fields(Facts)))


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
    x, classical = _facts(option.scheme), option.scheme is None
    stages = _stages(problem, x, rates, option.chunks, option.again, option.fused_output)
    if not classical:
        return tuple(zip(STAGES, stages, strict=True))
    _, _, multiply, store, start = stages
    if not option.fused_output:
        return (("multiply", multiply), ("start", start))
    M, N, K = problem.M, problem.N, problem.K
    pack_a, pack_b = rates.pack or (rates.bandwidth, rates.bandwidth)
    first = option.again[0] * 2.0 * M * K / pack_a
    second = 0.0 if problem.packed else option.again[1] * 2.0 * K * N / pack_b
    return tuple(zip(CLASSICAL_STAGES, (first, second, multiply, store, start), strict=True))


def bounds(
    problem: Problem, facts: Facts, rates: Rates, *, fused: bool, chunked: bool
) -> np.ndarray:
    """Return what no option of these schemes can be faster than: the whole problem, balanced.

    Parameters
    ----------
    facts : Facts
        Of many schemes, as arrays.
    fused : bool
        Whether the backend fuses Combine H.
    chunked : bool
        Chunks may be so small that sums of them fit the cache which those of the whole do not.
    """
    x, columns = facts, _columns(rates, fused)
    M, N, K = float(problem.M), float(problem.N), float(problem.K)
    blocks = np.ceil(np.array(((M,), (N,), (K,))) / x.parts)  # rows, columns, inner
    areas = np.empty_like(blocks)  # of the blocks of A, B and C
    np.multiply(blocks[0], blocks[2], areas[0])
    np.multiply(blocks[2], blocks[1], areas[1])
    np.multiply(blocks[0], blocks[1], areas[2])
    mr, nr = rates.tile
    tiles = np.ceil(blocks[:2] / columns.tile)
    padded = blocks[2]
    if rates.slice:
        padded = padded + rates.loss * np.ceil(padded / rates.slice)
    products = tiles[0] * tiles[1] * padded * (2.0 * mr * nr / rates.multiply)
    if any(rates.surface):
        products = products + rates.surface @ areas
    products = np.maximum(products, areas.sum(axis=0) * (1 / rates.bandwidth))
    sums = x.rank * areas
    near = sums[0] + sums[1] <= rates.cache / problem.dtype.itemsize
    far = np.minimum(columns.near, columns.far) if chunked else columns.far
    arithmetic = x.sums[fused] * areas * columns.addition
    matrices = np.array(((M * K,), (K * N,), (M * N,)))
    if fused:
        sums[2] = 0.0
    memory = (matrices + sums) * np.where(near, columns.near, far)
    combines = arithmetic + memory
    if rates.overlap:
        both = np.maximum(arithmetic, memory)
        combines = rates.overlap * both + (1 - rates.overlap) * combines
    if problem.packed:
        combines[1] = 0.0
    found: np.ndarray = combines.sum(axis=0) + x.rank * products + rates.overhead
    return found


def floor(problem: Problem, facts: Facts, rates: Rates) -> float:
    """Return what none of these schemes can be faster than: at most the least of `bounds`.

    For a backend that does not fuse Combine H. Groups of schemes count as one that is the best of
    the group in everything: enough to tell that such a backend has no chance, in a fifth of the
    time.
    """
    M, N, K = float(problem.M), float(problem.N), float(problem.K)
    near_a, far_a, near_b, far_b = rates.combine or (rates.bandwidth,) * 4
    multiply = 2.0 * M * N * K / rates.multiply
    read_a, read_b = M * K / max(near_a, far_a), K * N / max(near_b, far_b)
    add = (1 - rates.overlap) / rates.add
    add_a, add_b, add_c = M * K * add, K * N * add, M * N * add
    if problem.packed:
        read_b = add_b = 0.0
    write = M * N / rates.bandwidth
    least = (
        products * multiply
        + ((1 + sums_a) * read_a + u * add_a)
        + ((1 + sums_b) * read_b + v * add_b)
        + ((1 + sums_c) * write + w * add_c)
        for products, sums_a, sums_b, sums_c, u, v, w in facts.least
    )
    return min(least, default=float("inf"))


@dataclass(frozen=True)
class _Columns:
    """Rates as columns, for the blocks of A, B and C: what `bounds` multiplies and divides by."""

    tile: np.ndarray
    addition: np.ndarray  # seconds per addition
    near: np.ndarray  # seconds per element read or written
    far: np.ndarray


@lru_cache(maxsize=64)
def _columns(rates: Rates, fused: bool) -> _Columns:
    near_a, far_a, near_b, far_b = rates.combine or (rates.bandwidth,) * 4
    update, store = (rates.update, rates.store) if fused else (0.0, 0.0)
    last = store or rates.bandwidth
    return _Columns(
        np.array(rates.tile, float)[:, None],
        1 / np.array((rates.add, rates.add, update or rates.add))[:, None],
        1 / np.array((near_a, near_b, last))[:, None],
        1 / np.array((far_a, far_b, last))[:, None],
    )


def _stages(
    problem: Problem,
    x: Facts,
    rates: Rates,
    chunks: tuple[int, int, int],
    again: tuple[int, int, int],
    fused: bool,
) -> tuple[float, ...]:
    """Seconds of the stages; `bounds` works the same formulas out for many schemes at once."""
    # Floats: the products of three large sizes leave int64.
    M, N, K = float(problem.M), float(problem.N), float(problem.K)
    chunk_m, chunk_n, chunk_k = (max(size, 1) for size in chunks)
    mr, nr = rates.tile
    rows, row_tiles, chunks_m = _cut(problem.M, chunk_m, x.m, mr)
    columns, column_tiles, chunks_n = _cut(problem.N, chunk_n, x.n, nr)
    inner, slices, chunks_k = _cut(problem.K, chunk_k, x.k, rates.slice or 1)
    # Elements of a block of A, B and C, all chunks together.
    a, b, c = rows * inner, inner * columns, rows * columns
    padded = inner + rates.loss * slices if rates.slice else inner
    products = row_tiles * column_tiles * padded * (2.0 * mr * nr / rates.multiply)
    tiles = ceil(ceil(chunk_m / x.m) / mr) * ceil(ceil(chunk_n / x.n) / nr)
    threads = problem.threads
    products *= ceil(tiles / threads) * threads / tiles
    sigma_a, sigma_b, sigma_c = rates.surface
    operands = a * chunks_n, b * chunks_m, c * chunks_k
    products += sigma_a * operands[0] + sigma_b * operands[1] + sigma_c * operands[2]
    beta_a = beta_b = rates.bandwidth
    if rates.combine:
        near_a, far_a, near_b, far_b = rates.combine
        lines = ceil(chunk_m / x.m) + ceil(chunk_n / x.n)
        sums = x.rank * ceil(chunk_k / x.k) * lines
        near = sums <= rates.cache / problem.dtype.itemsize
        beta_a, beta_b = (near_a, near_b) if near else (far_a, far_b)
    overlap = rates.overlap
    times_a, times_b, times_c = again
    first = _combined(
        x.sums_a * a * (times_a / rates.add), times_a * (M * K + x.rank * a) / beta_a, overlap
    )
    second = 0.0
    if not problem.packed:
        second = _combined(
            x.sums_b * b * (times_b / rates.add), times_b * (K * N + x.rank * b) / beta_b, overlap
        )
    multiply = x.rank * max(products, sum(operands) * (1 / rates.bandwidth))
    if fused:
        last = _combined(
            x.terms_c * c * (times_c / (rates.update or rates.add)),
            times_c * M * N / (rates.store or rates.bandwidth),
            overlap,
        )
    else:
        last = _combined(
            x.sums_c * c * (times_c / rates.add),
            times_c * (M * N + x.rank * c) / rates.bandwidth,
            overlap,
        )
    return first, second, multiply, last, rates.overhead


def _cut(size: int, chunk: int, parts: float, unit: int) -> tuple[float, float, float]:
    """Cut a dimension into chunks, and these into a scheme's parts.

    Returns
    -------
    lines, units, chunks : float
        Lines of one part, and units that they fill, summed over the chunks; how many chunks.
    """
    full, rest = divmod(size, chunk)
    one, last = ceil(chunk / parts), ceil(rest / parts)
    units = full * ceil(one / unit) + ceil(last / unit)
    return float(full * one + last), float(units), float(full + (rest > 0))


def _combined(arithmetic: float, memory: float, overlap: float) -> float:
    """Seconds of a combine, of which the share `overlap` hides the lesser of both."""
    if overlap == 0:
        return arithmetic + memory
    return overlap * max(arithmetic, memory) + (1 - overlap) * (arithmetic + memory)
