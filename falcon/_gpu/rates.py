"""Measure the rates that a GPU's cost model needs, by CUDA events."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32, DType
from falcon._core.matrix import Matrix, dense
from falcon._core.rates import positive
from falcon.schemes import get

from . import cublas, device, fused, kernels
from .arrays import Library
from .geometry import segment_bytes, segments
from .layout import block_sizes
from .matrix import Operand
from .packed import Sums
from .steps import run
from .workspaces import allocate

# Large enough that waves and launches hardly count: 137 Gflop, 1.1 Tflop for 16-bit elements.
_MEASURED_SIZE = {8: 4096, 4: 4096, 2: 8192}
# The products of an LCMA are shorter than a whole one, and a batch: the inner length of 3x4x4:38 at
# 8192, and as many products as there is memory of A for, up to Strassen's.
_INNER, _MOST_PRODUCTS = 2048, 7
# Its Combine A is measured: many sums of many blocks, as in the schemes that gain most.
_COMBINED = "3x4x4:38"
_REPEATS = 5
# Seconds of back-to-back calls per pair of events, so that the host's gaps do not count, and before
# the first pair, until the clocks have settled.
_RUN, _WARM_UP = 0.02, 0.2
# Empty kernels per pair of events, fewer than a stream can queue; and products before them, which
# take the device longer (10 ms) than the launches take the host.
_EMPTY_LAUNCHES, _BUSY = 500, 8
# Elements of random data that a measured matrix repeats: a prime number, so that no two blocks of a
# matrix are equal. The sums of equal blocks would be zeros, which run faster and round nothing.
_RANDOM_ELEMENTS = 2**20 + 7


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Speeds of a device for one dtype."""

    multiply: float  # of cuBLAS on a large square product, flop/s
    batched: float  # the same of a batch as an LCMA runs it, results of the accumulators' type
    means: float  # of the product of A's means and B's sums, for products by parts, flop/s
    bandwidth: float  # of a Combine A with 38 sums, bytes read and written per second
    launch: float  # seconds of an empty kernel among many, launched while the device was busy
    multiprocessors: int
    l2_bytes: int

    def __post_init__(self) -> None:
        for x in fields(self):
            positive(x.name, getattr(self, x.name))

    def __str__(self) -> str:
        return (
            f"multiply {self.multiply / 1e9:.1f} GFLOP/s, in batches "
            f"{self.batched / 1e9:.1f} GFLOP/s, combine {self.bandwidth / 1e9:.1f} GB/s"
        )


# By whose rates reproducible products are planned.
_FIXED = "NVIDIA H200"


def fixed(index: int, operand: DType) -> DeviceRates:
    """Return rates that depend on nothing that is measured here."""
    return known(index, operand, _FIXED) or shipped(index, _FIXED)[operand.multiplied.name]


def known(index: int, operand: DType, name: str | None = None) -> DeviceRates | None:
    """Return shipped rates, of parts by those of their products; None: there are none.

    `name`: as for `shipped`.
    """
    found, splits = shipped(index, name), operand.splits
    if operand.name in found or splits == 1 or not found:
        return found.get(operand.name)
    of_splits, slower = found[operand.multiplied.name], splits * (splits + 1) / 2
    multiply, batched = of_splits.multiply / slower, of_splits.batched / slower
    means = found["float32"].multiply
    return replace(of_splits, multiply=multiply, batched=batched, means=means)


@cache
def shipped(index: int, name: str | None = None) -> dict[str, DeviceRates]:
    """Return rates that were measured on another device of that name, by type.

    `name`: of another kind of device than number `index` is.

    rates.json: ``python studies/shipped_rates.py --gpu`` prints a device's.
    """
    known = json.loads(Path(__file__).with_name("rates.json").read_bytes())
    about = device.properties(index)
    fixed = {"multiprocessors": about.multiprocessors, "l2_bytes": about.l2_bytes}
    return {key: DeviceRates(**x, **fixed) for key, x in known.get(name or about.name, {}).items()}


def measure(index: int, operand: DType) -> DeviceRates:
    """Measure device number `index`, about a second during which the host waits; free the memory.

    Raises RuntimeError: the current stream is being captured.
    Raises MemoryError: there is too little memory.
    """
    if device.is_capturing():
        raise RuntimeError(
            "falcon measures a GPU once per dtype, which a stream that is being captured cannot "
            "do: multiply once before the capture, or name a scheme"
        )
    with device.on(index):
        try:
            return _measured(index, operand)
        except MemoryError as error:
            why = str(error)
        finally:
            device.free_unused()
    raise MemoryError(why)  # one that keeps no memory alive


def _measured(index: int, operand: DType) -> DeviceRates:
    about = device.properties(index)
    size, dtype, splits = _MEASURED_SIZE[operand.itemsize], operand.multiplied, operand.splits
    scheme, sums = get(_COMBINED), operand.accumulator
    rows, _, columns = block_sizes(size, size, size, scheme)
    moved = size**2 * operand.itemsize + scheme.rank * rows * columns * operand.panel_bytes
    room = max(moved, 4 * size**2 * sums.itemsize)
    # All at once, so that the pool has the pieces, or this fails before any work.
    needed = room + size**2 * (2 * splits * dtype.itemsize + operand.itemsize)
    allocate(Library(), needed, optional=True)
    a = random_matrix(size, splits * size, dtype, 0)
    b = random_matrix(splits * size, size, dtype, 1)
    source = a if splits == 1 else random_matrix(size, size, operand.left, 2)
    half, inner = size // 2, min(_INNER, size // 2)
    batch = min(size * size // (half * inner), _MOST_PRODUCTS)
    memory = device.allocate(room)
    out = dense(memory.pointer, (size, size), operand.result, memory)

    is_fused = fused.multiplies(operand, index)
    centred = splits > 1 and not is_fused

    def product_of(*what: Any, batch: int = 1) -> Callable[[], None]:
        if is_fused:
            return partial(run, fused.product(*what, batch=batch))
        piece = cublas.longest(what[2], index, False)
        return partial(run, *cublas.products(*what, batch=batch, operand=operand, piece=piece))

    product = product_of(size, size, size, *(Operand.of(x) for x in (a, b, out)))
    several = (
        Operand(x.pointer, ld, False, step, kind)
        for x, ld, step, kind in (
            (a, splits * inner, half * splits * inner, dtype),
            (b, half, splits * inner * half, dtype),
            (memory, half, half * half, sums),
        )
    )
    products = product_of(half, half, inner, *several, batch=batch)
    written = Sums(memory.pointer, rows, columns, source.by_columns, False, operand)
    zeros = device.allocate(segment_bytes(size, size) if centred else 0)  # means of A
    device.clear(zeros.pointer, zeros.nbytes)
    spans = (0, rows), (0, columns)
    part = kernels.Part(source, (rows, columns), *spans, written, means=zeros.pointer)
    combine = partial(run, kernels.combine(scheme, operand, part, centred=centred))
    nothing = partial(run, kernels.empty())
    means = product
    if centred:
        short = segments(size)
        sources = replace(Operand.of(source), ld=short), replace(Operand.of(source), ld=size)
        of_means = cublas.products(size, size, short, *sources, Operand.of(out), operand=FLOAT32)
        means = partial(run, *of_means)

    def empty() -> float:
        for _ in range(_BUSY):
            product()
        return run_seconds(nothing, _EMPTY_LAUNCHES)

    return DeviceRates(
        multiply=2.0 * size**3 / seconds_per_call(product),
        batched=2.0 * batch * half * half * inner / seconds_per_call(products),
        means=2.0 * size**2 * (segments(size) if centred else size) / seconds_per_call(means),
        bandwidth=moved / seconds_per_call(combine),
        launch=min(empty() for _ in range(_REPEATS)) / _EMPTY_LAUNCHES,
        multiprocessors=about.multiprocessors,
        l2_bytes=about.l2_bytes,
    )


def seconds_per_call(call: Callable[[], None]) -> float:
    """Return the least seconds per call of some runs, each of `_RUN` seconds, after a warm-up."""
    calls, warmed = 1, 0.0
    while True:
        took = run_seconds(call, calls)
        warmed += took
        if took < _RUN:
            calls *= 2
        elif warmed >= _WARM_UP:
            break
    return min(run_seconds(call, calls) for _ in range(_REPEATS)) / calls


def run_seconds(call: Callable[[], None], calls: int) -> float:
    """Return the seconds of consecutive calls, by events."""
    start = device.event()
    for _ in range(calls):
        call()
    return max(device.seconds_between(start, device.event()), 1e-9)


def random_matrix(rows: int, columns: int, dtype: DType, seed: int) -> Matrix:
    """Fill a matrix on the device with a repeated piece of normal random data."""
    piece = np.random.default_rng(seed).standard_normal(
        min(_RANDOM_ELEMENTS, rows * columns), FLOAT32.numpy
    )
    source, shape = device.upload(piece), (-(-rows * columns // piece.size), piece.size)
    memory = device.allocate(shape[0] * shape[1] * dtype.itemsize)  # for whole pieces
    repeated = Matrix(int(source.data.ptr), shape, (0, 1), FLOAT32, source)
    run(kernels.copy(repeated, dense(memory.pointer, shape, dtype)))
    return dense(memory.pointer, (rows, columns), dtype, memory.owner)
