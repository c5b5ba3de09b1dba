"""Measure the engine: the rates that the cost model needs, from a handful of small calls.

The engine's own clock separates the combines; the rest of a call's time is shared out among
products, updates of C, stores and overhead by least squares over calls in which they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from falcon._fit import fastest, fit_times, rate
from falcon._plan import Rates
from falcon.schemes import Scheme, get

from . import _core
from .programs import engine_scheme

Call = tuple[int, int, int, Scheme | None]

# Flop of the largest call, in seconds at the speed found first; and the sizes that this may give.
_LARGEST_SECONDS = 0.03
_SIZES = 480, 1536
# Rounds over all calls, and the seconds after which no further one begins: quick, thorough.
_ROUNDS = {False: (6, 0.8), True: (24, 5.0)}


def measure(dtype: np.dtype, threads: int, isa: str, limit: int, *, thorough: bool) -> Rates:
    """Measure all rates of one dtype and number of threads (quick: about 0.5 s).

    Parameters
    ----------
    limit : int
        Workspace that calls keep to, bytes.
    """
    one = {"f": "f32", "d": "f64"}[dtype.char]
    kernel = _core.kernel_info(one, isa)
    bench = _Bench(dtype, one, threads, isa, limit)
    trial = bench.call(480, 480, 480, None)
    first = fastest(trial, 3)
    size = _even((_LARGEST_SECONDS / first * 480**3) ** (1 / 3))
    strassen, twice = get("strassen"), get("strassen@strassen")
    wide, thin = _even(1.5 * size), 96
    calls: list[Call] = [
        (size, size, size, None),
        (size, size, size, strassen),
        (size, size, size, twice),
        (wide, wide, thin, None),
        (wide, wide, 2 * thin, strassen),
        (480, 480, 480, None),
        (480, 480, 480, strassen),
        (480, 480, 480, twice),
        (size // 2, wide, size // 2, strassen),
    ]
    runs = bench.run(calls, *_ROUNDS[thorough])
    far_a, far_b, add = _combine_rates(runs[1:3], calls[1:3])
    near_a, near_b, _ = _combine_rates(runs[6:8], calls[6:8], add)
    pack_a, pack_b = (
        2 * size * size / max(runs[0][stage], 1e-9) for stage in ("combine_a", "combine_b")
    )
    terms = [_terms(call, run, kernel) for call, run in zip(calls, runs, strict=True)]
    rest = [max(x["wall"] - x["combine_a"] - x["combine_b"], 1e-9) for x in runs]
    flop, lost, update, store, start = fit_times(terms, rest)
    return Rates(
        multiply=rate(flop),
        add=rate(add),
        bandwidth=min(far_a, far_b),
        overlap=0.0,
        combine=(near_a, far_a, near_b, far_b),
        pack=(pack_a, pack_b),
        cache=_core.cache_sizes()["l3"] / 2,
        tile=(kernel["mr"], kernel["vlen"]),
        slice=kernel["kc"],
        loss=lost / flop if flop else 0.0,
        update=rate(update),
        store=rate(store),
        overhead=start,
    )


def _even(size: float) -> int:
    """Keep a size in bounds, a multiple of what two levels of Strassen halve."""
    least, most = _SIZES
    return int(min(max(size, least), most)) // 96 * 96


class _Bench:
    """Runs calls of one dtype on shared memory."""

    def __init__(self, dtype: np.dtype, one: str, threads: int, isa: str, limit: int) -> None:
        largest = (3 * _SIZES[1] // 2) ** 2
        some = np.random.default_rng(0).standard_normal(2**16).astype(dtype)
        self._memory = np.resize(some, (3, largest))
        self._one, self._limit = one, limit
        self._call: dict[str, Any] = {"threads": threads, "isa": isa}
        self._workspace = _core.Workspace(limit)

    def call(self, M: int, N: int, K: int, scheme: Scheme | None) -> Callable[..., Any]:
        """Return the function that runs a call; profile=True: with the engine's own clock."""
        a, b, c = (
            self._memory[i, : rows * columns].reshape(rows, columns)
            for i, (rows, columns) in enumerate(((M, K), (K, N), (M, N)))
        )
        engine = engine_scheme(scheme)
        tiling, _ = _core.plan(M, N, K, self._one, scheme=engine, limit=self._limit, **self._call)

        def run(profile: bool = False) -> Any:
            return _core.gemm(
                a, b, c, scheme=engine, blocking=tiling, workspace=self._workspace,
                profile=profile, **self._call,
            )  # fmt: skip

        return run

    def run(self, calls: list[Call], rounds: int, budget: float) -> list[dict[str, Any]]:
        """Return per call its least seconds ("wall"), those of the combines, and its tiling.

        The calls take turns, so that a disturbance of the machine spoils one round of each, not
        all of one.
        """
        found: list[dict[str, Any]] = [
            {"wall": inf, "combine_a": inf, "combine_b": inf} for _ in calls
        ]
        runs = [self.call(*call) for call in calls]
        end = perf_counter() + budget
        for number in range(rounds):
            if number > 2 and perf_counter() > end:
                break
            for run, least in zip(runs, found, strict=True):
                profile = run(profile=True)  # the first one touches the memory
                start = perf_counter()
                run()
                least["wall"] = min(least["wall"], perf_counter() - start)
                least["tiling"] = profile["blocking"]
                for stage in ("combine_a", "combine_b"):
                    seconds = profile[stage] / max(profile["threads"], 1)
                    least[stage] = min(least[stage], seconds)
        return found


def _combine_rates(
    runs: list[dict[str, Any]],
    calls: list[Call],
    add: float | None = None,
) -> tuple[float, float, float]:
    """beta_A and beta_B (elements/s), and seconds per addition, from combines of two schemes."""
    terms, times = [], []
    for run, (M, N, K, scheme) in zip(runs, calls, strict=True):
        assert scheme is not None  # for type checkers
        m, k, n = scheme.format
        u, v = (x.additions for x in scheme.shared_sums[:2])
        terms.append((M * K * (1 + scheme.rank / (m * k)), 0.0, u * M * K / (m * k)))
        terms.append((0.0, K * N * (1 + scheme.rank / (k * n)), v * K * N / (k * n)))
        times += [max(run["combine_a"], 1e-9), max(run["combine_b"], 1e-9)]
    if add is None:
        a, b, add = fit_times(terms, times)
    else:
        left = [max(time - x[2] * add, 0.2 * time) for x, time in zip(terms, times, strict=True)]
        a, b = fit_times([x[:2] for x in terms], left)
    return rate(a), rate(b), add


def _terms(call: Call, run: dict[str, Any], kernel: dict[str, Any]) -> list[float]:
    """What a call does beside combining: flop, lost flop, updates, elements of C, one start."""
    M, N, K, scheme = call
    m, k, n = (1, 1, 1) if scheme is None else scheme.format
    rank = 1 if scheme is None else scheme.rank
    mb, nb, kb = run["tiling"][:3]
    parts_m, parts_n, parts_k = M / mb, N / nb, K / kb
    rows, columns, inner = -(-mb // m), -(-nb // n), -(-kb // k)
    mr, vlen = kernel["mr"], kernel["vlen"]
    area = 2.0 * (-(-rows // mr) * mr) * (-(-columns // vlen) * vlen)
    products = rank * parts_m * parts_n * parts_k
    sums = 0 if scheme is None else scheme.nnz[2] - m * n
    again = max(parts_k, 1.0)
    return [
        products * area * inner,
        products * area * -(-inner // kernel["kc"]),
        sums * rows * columns * parts_m * parts_n * again,
        M * N * again,
        1.0,
    ]
