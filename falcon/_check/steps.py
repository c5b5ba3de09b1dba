"""The steps of a check, in order: which products are tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from math import sqrt
from typing import Any

from falcon import config, plan
from falcon._backends import DEVICE, get_backend, host_engine
from falcon._core.cpus import memory_bytes, usable_cpus
from falcon._core.dtypes import FLOAT32, FLOAT64, INT32, INT64, TABLE, DType
from falcon._core.options import FIELDS, SETTINGS, settings
from falcon._core.problem import Problem
from falcon._cpu.backend import cache_bytes
from falcon._cpu.each import Kernel, kernels
from falcon._cpu.extension import why_missing
from falcon._front.info import backends
from falcon._front.planner import predicted
from falcon.schemes import get

from .case import BATCH, BLOCKS, BY_COLUMNS, NOT_FINITE, PACKED, RANDOM, USUAL, WIDE, Case, operands
from .result import CheckResult, Row

# Settings that say on what the process may run; all others are as by default while it is checked.
_KEPT = "threads", "share_threads"
_USUAL: Any = {name: FIELDS[name].default for name in SETTINGS if name not in _KEPT}
SCHEMES = "classical", "strassen"
# Of few bits, for kernels of few bits, and so large that no sum of residues exceeds 63 bits.
MODULI = 251, 2**28 - 57
# All numbers of rows and columns that may be left of a tile at the edges of C; several slices of
# K, of which kernels take up to 1536 steps.
_EDGES = *((33 + x, 65 + 5 * x % 64, 33) for x in range(64)), (37, 45, 1601)
# More threads than these take products of more columns: a thread has at least 10^6 multiply-adds.
_THREADED, _THREADS = (307, 411, 523), 64
# Bytes of a large product: beyond a last-level cache of unknown size, and the share of the memory.
_BEYOND, _MEMORY_SHARE = 48 * 2**20, 16
_LEAST = 300  # the least rows and columns
_LONGEST = 4.0  # seconds that a large product may be predicted to take


def run_steps(result: CheckResult, tick: Callable[[str, int], object]) -> None:
    """Run all steps; `tick` is called before each, with its name and the number of all."""
    with config(**_USUAL):
        todo = [(x[0], partial(run_cases, *x)) for x in _products()]
    for name, run in todo:
        tick(name, len(todo))
        start = time.monotonic()
        with config(**_USUAL):
            run(result)
        result.seconds += time.monotonic() - start


def run_cases(name: str, products: Iterable[Case], about: str, result: CheckResult) -> None:
    """Test products, if any, and add what is found; `about`: else the number of types."""
    row, start, types = Row(name, about), time.monotonic(), set()
    try:
        for case in products:
            wrong, ratio = case.run()
            row.products, row.worst = row.products + 1, max(row.worst, ratio)
            types.add(case.operand)
            if wrong:
                row.failed += 1
                result.failures.append({"step": name, **case.where(), "wrong": wrong})
        row.about = about or (f"{len(types)} types" if len(types) > 1 else str(*types))
    except MemoryError:
        row.about = "not enough memory"
    operands.cache_clear()
    row.seconds = time.monotonic() - start
    result.rows.append(row)


# --- products -------------------------------------------------------------------------------


def _products() -> Iterator[tuple[str, Iterable[Case], str]]:
    """Yield the steps that test products: name, products, what is said of them."""
    every, states = kernels(), backends()
    for isa in dict.fromkeys(x.isa for x in every):
        yield f"kernels {isa}", of_kernels([x for x in every if x.isa == isa]), ""
    if every:
        counts = sorted({1, 2, usable_cpus(), usable_cpus() + 3})
        said = f"{', '.join(map(str, counts))}: the same bits"
        yield "threads", of_threads(every, counts), said
    else:
        yield "kernels", (), why_missing()
    here = [name for name, state in states.items() if state == "available"]
    for name, state in states.items():
        yield f"backend {name}", *((of_backend(name), "") if name in here else ((), state))
    spread = whole_calls(here, (FLOAT32, FLOAT64), values=NOT_FINITE)
    yield "NaN and Inf", spread, "spread as by the classical algorithm"
    yield "batches", whole_calls(here, form=BATCH), "broadcast stacks"
    yield "packed B", whole_calls(here, form=PACKED), "B packed beforehand"
    residues = (x for p in MODULI for x in whole_calls(here, (INT64,), modulus=p))
    yield "modulo p", residues, f"int64, p = {' and '.join(map(str, MODULI))}"
    yield "large product", *large()


def of_kernels(kernels: Iterable[Kernel]) -> Iterator[Case]:
    """Yield products of all sizes of edges, layouts and results that kernels have."""
    for x in kernels:
        usual = Case(x.operand, x)
        for sizes, form in product(_EDGES, ("", BLOCKS)):
            yield replace(usual, sizes=sizes, form=form)
        yield replace(usual, form=BY_COLUMNS)
        if x.operand.wide and x.operand.pair is None:
            yield replace(usual, form=WIDE)
        yield from _both(usual)
        yield from _both(replace(usual, form=BLOCKS))
        if x.operand.result is x.operand.left:  # else sums of elements may not fit the panels
            yield from _both(replace(usual, scheme="strassen"))


def of_threads(kernels: Iterable[Kernel], counts: Iterable[int]) -> Iterator[Case]:
    """Yield products by the best kernels, with several numbers of threads."""
    best = {x.operand: x for x in reversed(list(kernels))}
    M, N, K = _THREADED
    sizes = M, N * -(-max(counts) // _THREADS), K
    for row, scheme, count in product((FLOAT32, FLOAT64), SCHEMES, counts):
        yield Case(row, best[row], "", sizes, RANDOM, scheme=scheme, threads=count)


def of_backend(backend: str) -> Iterator[Case]:
    """Yield whole calls with all types of a backend."""
    for usual in whole_calls([backend], TABLE):
        yield from _both(usual)
        yield replace(usual, form=BY_COLUMNS)


def whole_calls(
    backends: Iterable[str], rows: Iterable[DType] = (FLOAT32, FLOAT64, INT32), **how: Any
) -> Iterator[Case]:
    """Yield a call for each backend, type and scheme that it has; `how`: fields of `Case`."""
    for name, row in product(backends, rows):
        backend, device = get_backend(name), 0 if name == DEVICE else None
        problem = Problem.of_sizes(USUAL, row, settings(), device=device)
        if backend.why_not(problem) is None and find_spec(row.module):  # of its NumPy dtype
            refused = backend.why_classical_only(problem, get("strassen"))
            for scheme in SCHEMES if refused is None else SCHEMES[:1]:
                yield Case(row, backend=name, scheme=scheme, **how)


def _both(usual: Case) -> Iterator[Case]:
    """Yield a product of whole numbers, and one that is rounded, of up to 53 bits."""
    yield usual
    if usual.operand.unit_roundoff >= FLOAT64.unit_roundoff:
        yield replace(usual, values=RANDOM)


def large() -> tuple[list[Case], str]:
    """Return float32 products beyond the caches, as memory allows, and what is said of them.

    Sizes are odd, and K is at most half as long as M and N. By what "auto" chooses, and Strassen's.
    """
    n = int(sqrt(min(max(1.5 * cache_bytes().get("l3", 0), _BEYOND), room()) / 8))
    M = max(n, _LEAST) // 2 * 2 + 3
    N, K = M - 4, M // 4 * 2 - 1
    chosen = plan((M, K), (K, N), "float32")
    while K > _LEAST and predicted(chosen).total > _LONGEST:
        K //= 2
        chosen = plan((M, K), (K, N), "float32")
    usual = Case(FLOAT32, sizes=(M, N, K), values=RANDOM, scheme="auto", backend="auto")
    mib = 4 * (M * K + K * N + M * N) // 2**20
    about = f"{chosen.problem}, {mib} MiB: {chosen.label} on {chosen.backend.name} (auto), strassen"
    return [usual, replace(usual, scheme="strassen", backend=host_engine().name)], about


def room() -> int:
    """Return the bytes that operands and results may take."""
    return (memory_bytes() or 2**30) // _MEMORY_SHARE
