"""The rates that plans are made with: the profile's, else shipped ones; for any number of threads.

``shipped.json`` holds what `Backend.measure` found on the machines that were at hand. Nothing is
measured here, but backends of which no rates are shipped, such as that of GPUs: a plan depends on
the problem, the options, these rates and the versions, never on how fast the machine was at a
moment.

**One machine.** All rates of a choice are those of one machine: this one, if all backends that
multiply the type were measured here, else the nearest one of which rates are shipped.

**Threads.** What a core does by itself grows with the threads; what waits for memory only up to
the bandwidth of the whole machine (`Rates.on`). That is taken from what was recorded with the most
threads, or from the number of CPUs, if that is more: combines moved 2.5 GB/s a CPU on 16 CPUs of a
Xeon with AMX.

To add a machine's rates: ``python studies/shipped_rates.py NAME >new.json``, and merge its rows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.plan import Backend
from falcon._core.problem import Problem
from falcon._core.rates import DisturbedError, Rates
from falcon._tools.cpus import cpu_family

from .machine import MachineProfile, add, profile, revision
from .store import RatesTable

_log = logging.getLogger("falcon")

# Bytes per second and CPU that combines move at least.
BANDWIDTH_PER_CPU = 2.5e9
# Share of the time of `measure_all` in which calls are timed, the first time.
_MEASURING = 0.6
# Kernels of OpenBLAS that are those of another row.
_SAME_KERNELS = {"Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX", "Zen": "Haswell"}
# Types whose rates stand for those of others, with a BLAS and without.
_BY_BLAS = "float32"
_BY_LOOPS = "int64"

# The longest vectors that only some CPUs of a family have.
_LONG = "avx512"
# By whose rates reproducible products are planned, on all machines.
_FIXED_KERNELS, _FIXED_MACHINE = "avx512_bf16", "AMD Zen 4"

# What this process decides by, per entry, device and revision of the profile.
_rates: dict[tuple[Any, ...], Any] = {}


class Row(NamedTuple):
    """Shipped rates, and what they were recorded with."""

    machine: str
    cpu: str  # `cpu_family`
    backend: str
    kernels: str
    dtype: str
    threads: int
    rates: Rates


def rates(
    backend: Backend,
    problem: Problem,
    backends: Sequence[Backend],
    compute_type: DType | None = None,
) -> Any:
    """Return the rates of a backend for a problem's threads and device.

    `backends`: see `profile`. A GPU, and a backend of which no rates are shipped, is measured if
    its profile has none (a second), without a lock: several threads may do so at once.
    `compute_type`: as which elements are multiplied, if not as those of their own type.
    """
    row = (compute_type or problem.operand).measured
    if compute_type is not None and compute_type.rounded is not compute_type.left:
        found = rates(backend, replace(problem, operand=row, result=row), backends)
        return found.on(1.0, 2 * row.itemsize / (row.itemsize + compute_type.itemsize))
    if problem.reproducible:
        if problem.device is not None:  # shipped ones: nothing is measured
            return backend.measure(row, problem.threads, 0.0, device=problem.device)
        return _fixed_rates(backend.name, row)
    machine, device = profile(backends, problem.device), problem.device
    entry = backend.name, row.name, problem.threads
    key = *entry, device, revision()
    entry_rates = _rates.get(key)
    if entry_rates is None and (device is not None or not _is_shipped(backend.name)):
        entry_rates = machine.rates.get(entry)
        if entry_rates is None:
            _log.info("falcon: measuring %s %s (a second, once)", *entry[:2])
            entry_rates = backend.measure(row, problem.threads, device=device)
            if not machine.pinned:  # only `tune` writes to that file
                add(backends, device, {entry: entry_rates})
    elif entry_rates is None:
        entry_rates = _host_rates(backend, row, problem.threads, backends, machine)
    return _rates.setdefault(key, entry_rates)


def _host_rates(
    backend: Backend, row: DType, threads: int, backends: Sequence[Backend], machine: MachineProfile
) -> Rates:
    by_threads, least_bandwidth = _measured(backend, row, backends, machine), 0.0
    if not by_threads:
        by_threads = {x.threads: x.rates for x in _rows_of(backend, row, backends)}
        least_bandwidth = BANDWIDTH_PER_CPU * (os.cpu_count() or 1)
    return on_threads(by_threads, threads, least_bandwidth / row.itemsize)


@cache
def _fixed_rates(backend: str, operand: DType) -> Rates:
    """Return the rates of one kind of machine, for one thread."""
    rows = [x for x in shipped() if x.machine == _FIXED_MACHINE and x.backend == backend]
    known = any(x.dtype in _names(operand) for x in rows)
    return nearest(rows if known else shipped(), backend, _FIXED_KERNELS, operand)[0].rates


def _measured(
    backend: Backend, row: DType, backends: Sequence[Backend], machine: MachineProfile
) -> dict[int, Rates]:
    """Return what the profile has for a type, by number of threads, if it has all that compete."""
    known = {(b, dtype) for b, dtype, _ in machine.rates}
    rivals = [x for x in backends if row.has_blas and _is_shipped(x.name)]
    if any((x.name, row.name) not in known for x in (backend, *rivals)):
        return {}
    wanted = backend.name, row.name
    return {t: x for (b, dtype, t), x in machine.rates.items() if (b, dtype) == wanted}


def on_threads(known: dict[int, Rates], threads: int, least: float) -> Rates:
    """Return rates for a number of threads, from those of the nearest number.

    `known`: by number of threads. `least`: elements per second that memory delivers at least.
    """
    nearest = _nearest_number(known, threads)
    found = known[nearest]
    streams = {t: x.bandwidth for t, x in known.items()}
    one = streams[min(streams)] / min(streams)
    most = max(least, *streams.values())
    return found.on(threads / nearest, min(threads * one, most) / streams[nearest])


def _nearest_number(known: Iterable[int], threads: int) -> int:
    return min(known, key=lambda x: abs(log(x / threads)))


def source(
    backend: Backend,
    problem: Problem,
    backends: Sequence[Backend],
    compute_type: DType | None = None,
) -> str:
    """Say where `rates` come from; parameters as there."""
    if problem.device is not None:
        return "shipped" if problem.reproducible else "measured on a GPU of this kind"
    kind, machine = (compute_type or problem.operand).measured, profile(backends)
    if not _is_shipped(backend.name):
        is_known = (backend.name, kind.name, problem.threads) in machine.rates
        return "measured here" if is_known else "measured here when first needed"
    if _measured(backend, kind, backends, machine):
        return "measured by tune" + (" (FALCON_PROFILE)" if machine.pinned else "")
    rows = _rows_of(backend, kind, backends)
    row, recorded = rows[0], _nearest_number((x.threads for x in rows), problem.threads)
    told = f"shipped, recorded on an {row.machine} with {row.kernels} kernels"
    if recorded != problem.threads:
        told += f" and {recorded} threads"
    if not stand_in(backend, problem, backends, compute_type):
        return told
    return f"{told} for {row.dtype}; python -m falcon tune measures this machine (a minute)"


def stand_in(
    backend: Backend,
    problem: Problem,
    backends: Sequence[Backend],
    compute_type: DType | None = None,
) -> str:
    """Return the machine whose shipped rates stand for this one's; "": its own are known."""
    kind = (compute_type or problem.operand).measured
    if not _is_shipped(backend.name) or _measured(backend, kind, backends, profile(backends)):
        return ""
    row, first = _rows_of(backend, kind, backends)[0], _first(backend, backends)
    own = cpu_family(), backend.name, kernels_of(backend), kind.name
    # Of a family, some CPUs have longer vectors than others.
    alike = (x for x in shipped() if (x.machine, x.backend) == (row.machine, first.name))
    lengths = {_vectors(x.kernels) for x in alike}
    is_short = _LONG in lengths and _vectors(kernels_of(first)) != _LONG
    return row.machine if is_short or row[1:5] != own else ""


def kernels_of(backend: Backend) -> str:
    """Return the kernels that a backend runs, by the name that rows have."""
    return _SAME_KERNELS.get(backend.kernels(), backend.kernels())


@cache
def shipped() -> list[Row]:
    """Return all rows that are shipped."""
    found = []
    for x in json.loads(Path(__file__).with_name("shipped.json").read_bytes()):
        about = {name: x.pop(name) for name in Row._fields[:-1]}
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in x.items()}
        found.append(Row(**about, rates=Rates(**values)))
    return found


@cache
def _is_shipped(backend: str) -> bool:
    return any(x.backend == backend for x in shipped())


def _rows_of(backend: Backend, operand: DType, backends: Sequence[Backend]) -> list[Row]:
    first = _first(backend, backends)
    known = backend.name, kernels_of(backend), operand
    return _nearest_here(*known, first.name, kernels_of(first))


def _first(backend: Backend, backends: Sequence[Backend]) -> Backend:
    """Return falcon's own backend, by whose kernels machines are compared, or that one."""
    own = [x for x in backends if not x.is_library and _is_shipped(x.name)]
    return own[0] if own else backend


@cache
def _nearest_here(backend: str, kernels: str, operand: DType, own: str, isa: str) -> list[Row]:
    return stand_ins(shipped(), backend, kernels, operand, own, isa, cpu_family())


def stand_ins(
    rows: Sequence[Row], backend: str, kernels: str, operand: DType, own: str, isa: str, cpu: str
) -> list[Row]:
    """Return the rows that stand for a backend's: those of the nearest machine.

    Where they lack `Rates.classical`, they have that of the nearest machine with it.
    `own`, `isa`: falcon's backend and its kernels; `cpu`: `cpu_family`.
    """
    machine = nearest_machine(rows, own, isa, operand, cpu)
    some = [x for x in rows if x.machine == machine and x.dtype in _names(operand)]
    able = some if any(x.backend == backend for x in some) else rows
    found = nearest(able, backend, kernels, operand)
    others = [x for x in rows if x.rates.classical and x.dtype == operand.name]
    if found[0].rates.classical or not {own, backend} <= {x.backend for x in others}:
        return found
    near = stand_ins(others, backend, kernels, operand, own, isa, cpu)
    costs = {x.threads: x.rates for x in near}

    def filled(x: Row) -> Rates:
        return replace(x.rates, classical=on_threads(costs, x.threads, 0.0).classical)

    return [x._replace(rates=filled(x)) for x in found]


def _names(operand: DType) -> tuple[str, ...]:
    return operand.name, "" if operand.part is None else operand.part.name


def nearest_machine(
    rows: Sequence[Row], backend: str, kernels: str, operand: DType, cpu: str
) -> str:
    """Return the machine whose rates stand for this one's.

    It has rates of the type; then counts the length of vectors, by which micro-kernels differ, then
    the family, the maker, and the kernels' other instructions.
    """

    def distance(x: Row) -> tuple[bool, ...]:
        is_made_by = x.cpu.split(" ")[0] == cpu.split(" ")[0]
        known, vectors = x.dtype in _names(operand), _vectors(x.kernels) == _vectors(kernels)
        tiles = x.kernels.startswith("amx") == kernels.startswith("amx")
        first = not known, not vectors, x.cpu != cpu
        return *first, not is_made_by, not tiles, x.kernels != kernels

    return min((x for x in rows if x.backend == backend), key=distance).machine


def _vectors(kernels: str) -> str:
    """Return the instructions that a float's micro-kernels have on an instruction set."""
    return {"avx": "avx2", "amx": "avx512", "avx512": "avx512"}.get(kernels.split("_")[0], kernels)


def nearest(rows: Sequence[Row], backend: str, kernels: str, operand: DType) -> list[Row]:
    """Return the nearest rows, one per number of threads; the type counts more than kernels."""
    part = operand.part
    instead = part.name if part is not None else _BY_BLAS if operand.has_blas else _BY_LOOPS

    def distance(x: Row) -> tuple[int, bool]:
        far = (x.dtype != operand.name) + (x.dtype not in (operand.name, instead))
        return far, x.kernels != kernels

    some = [x for x in rows if x.backend == backend]
    if not some:
        raise RuntimeError(f"falcon ships no rates of backend {backend!r}")
    best = min(some, key=distance)
    return [x for x in some if x[:5] == best[:5]]


def measure_all(
    backends: Sequence[Backend],
    dtypes: Iterable[DType],
    threads: Sequence[int],
    tick: Callable[[str], None],
    seconds: float = 60.0,
) -> tuple[MachineProfile, dict[str, str]]:
    """Measure everything and store the profile.

    `tick`: called with the name of each step before it begins.
    `seconds`: about how long it may take. What was disturbed is measured again in what is left.
    Returns also the steps that remained disturbed, and why: the profile keeps what it had of them.
    Raises OSError: FALCON_PROFILE names a file that cannot be written.
    """
    steps = []
    for count in threads:
        for dtype in dtypes:
            problem = Problem.of_sizes((1024,) * 3, dtype.left, Options(threads=count))
            row = None if dtype.arithmetic is None else dtype
            able = [x for x in backends if x.why_classical_only(problem, None, row) is None]
            # A library without BLAS for the type multiplies it only where nothing else does.
            others = [x for x in able if not x.is_library]
            some = able if dtype.has_blas else others or able
            steps += [(x, dtype, problem.threads) for x in some]
    end, budget = monotonic() + seconds, _MEASURING * seconds / max(len(steps), 1)
    found: RatesTable = {}
    disturbed: dict[str, str] = {}
    try:
        for again in (False, True):
            for backend, dtype, count in steps:
                name = f"{backend.name} {dtype}, {count} threads"
                if again and (name not in disturbed or monotonic() + budget > end):
                    continue
                tick(name)
                try:
                    found[backend.name, dtype.name, count] = backend.measure(dtype, count, budget)
                    disturbed.pop(name, None)
                except DisturbedError as error:
                    disturbed[name] = str(error)
    finally:  # Ctrl-C leaves what was measured so far
        made = add(backends, None, found)
    return made, disturbed
