"""Measure the engine: the rates that the cost model needs, from a handful of small calls.

The engine's own clock separates the three combines; the rest of a call's time is shared out among
products, slices, overhead and the packing of classical calls by least squares over calls in which
they differ: a tile packs while it multiplies, so that the clock cannot tell them apart. (Fitted by
least squares too, the rates of updates of C were 3.5 times apart in two profiles of one machine:
they take only a tenth of the time of a call.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from falcon._core.dtypes import DType
from falcon._core.fit import fastest, fit_times, rate, typical
from falcon._core.formulas import LONG_BLOCK
from falcon._core.rates import Rates
from falcon.schemes import Scheme, get

from . import _core
from .extension import engine_view
from .programs import engine_scheme

Call = tuple[int, int, int, Scheme | None]

# Seconds of the largest cube, and the least and the largest size that it may have.
_LARGEST_SECONDS = 0.02
_SIZES = 768, 1536
# A cache is modelled only if that reduces the sum of squared errors to this share.
_CUT_GAIN = 0.8
# Stages that the engine's own clock separates.
_CLOCKED = "combine_a", "combine_b", "update"
# Rounds over all calls, and the seconds after which no further one begins: quick, thorough.
_ROUNDS = {False: (5, 1.0), True: (24, 8.0)}


def measure(operand: DType, threads: int, isa: str, limit: int, *, thorough: bool) -> Rates:
    """Measure all rates of one dtype and number of threads (quick: about a second).

    `limit`: workspace that calls keep to, bytes.
    """
    kernel = _core.kernel_info(operand.engine, isa)
    bench = _Bench(operand, threads, isa, limit)
    first = fastest(bench.call(480, 480, 480, None), 3)
    calls = _calls(_size(first, _core.cache_sizes()["l3"] / 2, operand.itemsize))
    runs = bench.run(calls, *_ROUNDS[thorough])
    cache, (near_a, far_a, near_b, far_b, add) = _combine_costs(runs, calls, operand.itemsize)
    terms = [_terms(call, run, kernel) for call, run in zip(calls, runs, strict=True)]
    near, far, store = fit_times([x[:3] for x in terms], [max(x["update"], 1e-9) for x in runs])
    rest = [_unclocked(call, run) for call, run in zip(calls, runs, strict=True)]
    flop, lost, disturbance, start, pack_a, pack_b = fit_times([x[3:] for x in terms], rest)
    return Rates(
        multiply=rate(flop),
        add=rate(add),
        bandwidth=rate(max(far_a, far_b)),
        overlap=0.0,
        combine=(rate(near_a), rate(far_a), rate(near_b), rate(far_b)),
        pack=(rate(pack_a), rate(pack_b)),
        cache=cache,
        tile=(kernel["mr"], kernel["vlen"]),
        slice=kernel["kc"],
        loss=lost / flop if flop else 0.0,
        update=rate(near),
        update_far=rate(near + far),
        disturbance=disturbance,
        store=rate(store),
        overhead=start,
    )


def _calls(size: int) -> list[Call]:
    """Calls in which the costs differ: cubes, short and long K, few rows and columns, schemes."""
    strassen, twice = get("strassen"), get("strassen@strassen")
    wide, half, low, thin = 3 * size // 2, size // 2, 288, 96
    return [
        *((x, x, x, scheme) for x in (half, size) for scheme in (None, strassen, twice)),
        *((wide, wide, k * thin, scheme) for k, scheme in ((1, None), (2, strassen), (4, twice))),
        # Many blocks of C, short ones of K: without these, updates of C seemed half as costly.
        *((wide, wide, 3 * thin, get(name)) for name in ("3x2x3:15", "3x3x4:29", "6x3x4:54")),
        *((wide, low, size, scheme) for scheme in (None, strassen)),
        *((low, wide, size, scheme) for scheme in (None, strassen)),
        # Few rows or columns, and a small product: packing takes much of their time.
        *((x, thin // 2, half, None) for x in (half, size)),
        *((thin // 2, x, half, None) for x in (half, size)),
        *((size, thin, size, None), (thin, size, size, None)),
        *((low, low, size, None), (low, low, low, None)),
        (size, size, size, get("3x4x4:38")),
        # Operands and sums far beyond the caches.
        *((wide, wide, wide, scheme) for scheme in (strassen, get("3x6x4:54"))),
    ]


def _size(seconds: float, cache: float, itemsize: int) -> int:
    """Choose the size of the largest cube, a multiple of 96; a cube of 480 took `seconds`.

    Large enough that Strassen's sums of A and B leave the cache, if that does not take too long.
    """
    affordable = (_LARGEST_SECONDS / seconds) ** (1 / 3) * 480
    beyond = (cache / (7 / 4 * 2 * itemsize)) ** 0.5 + 96
    least, most = _SIZES
    return int(min(max(affordable, beyond, least), most)) // 96 * 96


class _Bench:
    """Runs calls of one dtype on shared memory."""

    def __init__(self, operand: DType, threads: int, isa: str, limit: int) -> None:
        largest = (3 * _SIZES[1] // 2) ** 2
        some = 50 * np.random.default_rng(0).standard_normal(2**16)
        self._memory = engine_view(
            np.resize(some.astype(operand.left.numpy), (3, largest)), operand.left
        )
        self._operand, self._limit = operand, limit
        self._call: dict[str, Any] = {"threads": threads, "isa": isa}
        self._kind = None if operand.arithmetic is None else operand.engine
        self._workspace = _core.Workspace(limit)

    def call(self, M: int, N: int, K: int, scheme: Scheme | None) -> Callable[..., Any]:
        """Return the function that runs a call; profile=True: with the engine's own clock."""
        a, b, c = (
            self._memory[i, : rows * columns].reshape(rows, columns)
            for i, (rows, columns) in enumerate(((M, K), (K, N), (M, N)))
        )
        engine = engine_scheme(scheme)
        call, limit = self._call, self._limit
        tiling, _ = _core.plan(M, N, K, self._operand.engine, scheme=engine, limit=limit, **call)

        def run(profile: bool = False) -> Any:
            return _core.gemm(
                a, b, c, scheme=engine, blocking=tiling, workspace=self._workspace,
                profile=profile, kind=self._kind, **call,
            )  # fmt: skip

        return run

    def run(self, calls: list[Call], rounds: int, budget: float) -> list[dict[str, Any]]:
        """Return per call its seconds ("wall"), those of the combines, and its tiling.

        The calls are interleaved, so that a disturbance of the machine affects one round of each
        call, not all rounds of one.
        """
        times: list[dict[str, list[float]]] = [
            {name: [] for name in ("wall", *_CLOCKED)} for _ in calls
        ]
        runs = [self.call(*call) for call in calls]
        tilings: list[Any] = []
        end = perf_counter() + budget
        for number in range(rounds):
            if number > 2 and perf_counter() > end:
                break
            tilings = []
            for run, found in zip(runs, times, strict=True):
                profile = run(profile=True)  # the first one touches the memory
                start = perf_counter()
                run()
                found["wall"].append(perf_counter() - start)
                tilings.append(profile["blocking"])
                for stage in _CLOCKED:
                    found[stage].append(profile[stage] / max(profile["threads"], 1))
        return [
            {**{name: typical(x) for name, x in found.items()}, "tiling": tiling}
            for found, tiling in zip(times, tilings, strict=True)
        ]


def _combine_costs(
    runs: list[dict[str, Any]], calls: list[Call], itemsize: int
) -> tuple[float, list[float]]:
    """Fit the costs of the combines, with sums that fit a cache and with larger ones.

    The calls' sums of A and B differ in size: the cut between two sizes that fits the times best is
    taken for the size of the cache, whatever the processor reports. (A virtual machine shares its
    L3 with others.)

    Returns `cache`: bytes of all sums up to which costs are the near ones; 0 if no cut improves the
    fit.
    Returns `costs`: seconds per element of Combine A near and far, of B near and far, and per
    addition.
    """
    terms, times, sizes = [], [], []
    for run, (M, N, K, scheme) in zip(runs, calls, strict=True):
        if scheme is None:
            continue
        m, k, n = scheme.format
        a, b = M * K / (m * k), K * N / (k * n)
        for side, (matrix, block, program) in enumerate(
            ((M * K, a, scheme.shared_sums[0]), (K * N, b, scheme.shared_sums[1]))
        ):
            moved = [0.0, 0.0]
            moved[side] = matrix + scheme.rank * block
            terms.append((*moved, program.additions * block))
            times.append(max(run["combine_b" if side else "combine_a"], 1e-9))
            sizes.append(scheme.rank * (a + b) * itemsize)
    cost_a, cost_b, add = fit_times(terms, times)
    least = _CUT_GAIN * _error(terms, times, (cost_a, cost_b, add)) - 1e-9  # rounding errors
    cache, costs = 0.0, [cost_a, cost_a, cost_b, cost_b, add]
    ordered = sorted(set(sizes))
    for below, above in pairwise(ordered):
        split = [
            (0.0, a, 0.0, b, x) if size > below else (a, 0.0, b, 0.0, x)
            for (a, b, x), size in zip(terms, sizes, strict=True)
        ]
        found = fit_times(split, times)
        error = _error(split, times, found)
        if error < least and 0 < found[0] <= found[1] and 0 < found[2] <= found[3]:
            least, cache, costs = error, (below * above) ** 0.5, found
    return cache, costs


def _error(
    terms: Sequence[Sequence[float]], times: Sequence[float], costs: Sequence[float]
) -> float:
    """Sum of squared relative errors."""
    predicted = np.asarray(terms) @ np.asarray(costs)
    return float(((predicted / np.asarray(times) - 1) ** 2).sum())


def _unclocked(call: Call, run: dict[str, Any]) -> float:
    """Seconds of a call without the stages that the engine's clock can tell from the products."""
    stages = _CLOCKED if call[3] is not None else ("update",)
    return max(run["wall"] - sum(run[stage] for stage in stages), 1e-9)


def _terms(call: Call, run: dict[str, Any], kernel: dict[str, Any]) -> list[float]:
    """Updates twice and elements of C; flop, lost flop, updates, one start and elements packed."""
    M, N, K, scheme = call
    m, k, n = (1, 1, 1) if scheme is None else scheme.format
    rank = 1 if scheme is None else scheme.rank
    mb, nb, kb = run["tiling"][:3]
    parts_m, parts_n, parts_k = M / mb, N / nb, K / kb
    rows, columns, inner = -(-mb // m), -(-nb // n), -(-kb // k)
    mr, vlen = kernel["mr"], kernel["vlen"]
    area = 2.0 * (-(-rows // mr) * mr) * (-(-columns // vlen) * vlen)
    products = rank * parts_m * parts_n * parts_k
    sums = 0 if scheme is None else scheme.shared_sums[2].additions
    again = max(parts_k, 1.0)
    updates = sums * rows * columns * parts_m * parts_n * again
    return [
        updates,
        updates * min(inner / LONG_BLOCK, 1.0),
        M * N * again,
        products * area * inner,
        products * area * -(-inner // kernel["kc"]),
        updates,
        1.0,
        *((2.0 * M * K, 2.0 * K * N) if scheme is None else (0.0, 0.0)),
    ]
