"""The steps of a check, in order, and how one runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from falcon._core.config import config
from falcon._core.cpus import usable_cpus
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.options import FIELDS
from falcon._cpu.each import kernels
from falcon._cpu.extension import why_missing
from falcon._front.info import backends
from falcon._front.plan import plan

from . import cases
from .cases import BATCH, NOT_FINITE, PACKED, Case, sizes_of
from .compare import operands, wrong
from .result import CheckResult, Failure, Row
from .speeds import compared, measure

# Settings that say on what the process may run; all others are as by default while it is checked.
_KEPT = "threads", "share_threads"
_USUAL: Any = {name: x.default for name, x in FIELDS.items() if name not in _KEPT}


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the check; `run` adds to its result."""

    name: str
    run: Callable[[CheckResult], None]

    def __call__(self, result: CheckResult) -> None:
        start = time.monotonic()
        with config(**_USUAL):
            self.run(result)
        result.seconds += time.monotonic() - start


def steps(*, speeds: bool = True) -> list[Step]:
    """Return all steps."""
    with config(**_USUAL):
        return [*_products(), *(_speeds() if speeds else ())]


def _products() -> Iterator[Step]:
    """Yield the steps that test products."""
    every = kernels()
    if not every:
        yield _left_out("kernels", why_missing())
    for isa in dict.fromkeys(x.isa for x in every):
        yield _step(f"kernels {isa}", cases.of_kernels([x for x in every if x.isa == isa]))
    if every:
        counts = sorted({1, 2, usable_cpus(), usable_cpus() + 3})
        about = f"{', '.join(map(str, counts))}: the same bits"
        yield _step("threads", cases.of_threads(every, counts), about)
    states = backends()
    for name, state in states.items():
        is_there = state == "available"
        step = f"backend {name}"
        yield _step(step, cases.of_backend(name)) if is_there else _left_out(step, state)
    here = [name for name, state in states.items() if state == "available"]
    spread = cases.whole_calls(here, (FLOAT32, FLOAT64), values=NOT_FINITE)
    yield _step("NaN and Inf", spread, "spread as by the classical algorithm")
    yield _step("batches", cases.whole_calls(here, form=BATCH), "broadcast stacks")
    yield _step("packed B", cases.whole_calls(here, form=PACKED), "B packed beforehand")
    yield Step("large product", _large)


def _speeds() -> Iterator[Step]:
    for row, sizes in compared():
        yield Step(f"speed of {sizes_of(sizes)} {row}", partial(measure, row, sizes))


def _left_out(name: str, why: str) -> Step:
    return Step(name, lambda result: result.rows.append(Row(name, why, is_skipped=True)))


def _step(name: str, products: Iterable[Case], about: str = "") -> Step:
    return Step(name, partial(run_cases, name, products, about))


def _large(result: CheckResult) -> None:
    sizes = M, N, K = cases.large_sizes()
    chosen = plan((M, K), (K, N), "float32")
    about = f"{sizes_of(sizes)}, {4 * (M * K + K * N + M * N) // 2**20} MiB"
    about += f": {chosen.label} on {chosen.backend.name} (auto), strassen"
    run_cases("large product", cases.large(sizes), about, result)


def run_cases(name: str, products: Iterable[Case], about: str, result: CheckResult) -> None:
    """Test products, and add what is found to a result; `about`: else the number of types."""
    row, start, types = Row(name, about), time.monotonic(), set()
    try:
        for case in products:
            what, ratio = wrong(case)
            row.products, row.worst = row.products + 1, max(row.worst, ratio)
            types.add(case.operand)
            if what:
                row.failed += 1
                result.failures.append(Failure(name, case.where(), what))
        row.about = about or (f"{len(types)} types" if len(types) > 1 else str(*types))
    except MemoryError:
        row.about, row.is_skipped = "not enough memory", True
    operands.cache_clear()
    row.seconds = time.monotonic() - start
    result.rows.append(row)
