"""What falcon measures of itself: stages, errors and the crossover, a small task at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._cpu import peak
from falcon._cpu.profile import stage_seconds
from falcon._front.info import backends

from .measure import Spread, interleave, sampled_error
from .workloads import Shape, operands

_GUESS = 5e10
_ERROR_SCHEMES = ("classical", "strassen", "winograd", "3x3x3:23", "strassen@strassen",
                  "3x4x5:48", "5x5x5:93")  # fmt: skip
_ERROR_SIZES = (240, 480, 960, 1920, 3840)
_STAGE_SHAPES = (
    Shape(1024, 1024, 1024), Shape(2048, 2048, 2048), Shape(4096, 4096, 4096),
    Shape(2048, 4608, 3584), Shape(512, 14336, 4096),
)  # fmt: skip
_STAGE_SCHEMES = ("classical", "strassen", "strassen@strassen")
_CROSSOVER_M = (512, 1024, 1536, 2048, 3072, 4096)
_CROSSOVER_K = (256, 512, 1024, 2048, 4096)
_CROSSOVER_SCHEMES = ("strassen", "strassen@strassen")
_CROSSOVER_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Task:
    """A small measurement: its name, its kind (a list of the record file), a guess of its time."""

    key: str
    kind: str
    seconds: float
    run: Callable[[], dict[str, Any]]


def tasks(threads: int, dtypes: tuple[str, ...], *, quick: bool) -> list[Task]:
    """Return the tasks; `quick` leaves most of them out."""
    found = [_peak_task(threads)]
    for dtype in dtypes:
        if of(dtype).engine is None:
            continue
        found += _stage_tasks(threads, dtype, quick)
        found += _error_tasks(threads, dtype, quick)
        found += _crossover_tasks(threads, dtype, quick)
    return found


def _peak_task(threads: int) -> Task:
    def run() -> dict[str, Any]:
        return {
            "threads": threads,
            "gflops": [
                {"dtype": x.dtype, "isa": x.isa, "gflops": round(x.gflops, 2)}
                for x in peak.measure(threads)
            ],
        }

    return Task("peak", "peak", 3.0, run)


def _stage_tasks(threads: int, dtype: str, quick: bool) -> list[Task]:
    found = []
    for shape in _STAGE_SHAPES[1:2] if quick else _STAGE_SHAPES:
        for scheme in _STAGE_SCHEMES:
            key = f"stages {_sizes(shape)} {dtype} {scheme}"
            run = partial(_stages, shape, dtype, scheme, threads)
            found.append(Task(key, "stages", 0.3 + 6 * _flops(shape) / _GUESS, run))
    return found


def _stages(shape: Shape, dtype: str, name: str, threads: int) -> dict[str, Any]:
    a, b = operands(shape, np.dtype(dtype), seed=1)
    scheme = None if name == "classical" else falcon.schemes.get(name)
    try:
        found = stage_seconds(a, b, scheme, threads)
    except RuntimeError as error:
        return {**_of(shape, dtype), "scheme": name, "failed": str(error)}
    return {**_of(shape, dtype), "scheme": name, **found}


def _error_tasks(threads: int, dtype: str, quick: bool) -> list[Task]:
    found = []
    for size in _ERROR_SIZES[1:4] if quick else _ERROR_SIZES:
        shape = Shape(size, size, size)
        run = partial(_errors, size, dtype, threads)
        seconds = 0.5 + len(_ERROR_SCHEMES) * _flops(shape) / _GUESS
        found.append(Task(f"errors {size} {dtype}", "errors", seconds, run))
    return found


def _errors(size: int, dtype: str, threads: int) -> dict[str, Any]:
    """Measure the errors of some schemes on one product; classical ones times growth predict."""
    shape = Shape(size, size, size)
    a, b = operands(shape, np.dtype(dtype), seed=size)
    measured, growth = {}, {}
    for name in _ERROR_SCHEMES:
        product = falcon.gemm(a, b, scheme=name, threads=threads, max_growth=1e9)
        measured[name] = sampled_error(a, b, product)
        growth[name] = 1.0 if name == "classical" else falcon.schemes.get(name).rms_growth
    return {"size": size, "dtype": dtype, "measured": measured, "growth": growth}


def _crossover_tasks(threads: int, dtype: str, quick: bool) -> list[Task]:
    found = []
    for size in _CROSSOVER_M[1:4:2] if quick else _CROSSOVER_M:
        for K in _CROSSOVER_K[1:4] if quick else _CROSSOVER_K:
            shape = Shape(size, size, K)
            run = partial(_crossover, shape, dtype, threads)
            sides = 1 + len(_CROSSOVER_SCHEMES)
            seconds = sides * (_CROSSOVER_ROUNDS + 1) * (0.25 + _flops(shape) / _GUESS)
            found.append(Task(f"crossover {_sizes(shape)} {dtype}", "crossover", seconds, run))
    return found


def _crossover(shape: Shape, dtype: str, threads: int) -> dict[str, Any]:
    """Compare schemes with falcon's classical path, and note what it would choose itself."""
    a, b = operands(shape, np.dtype(dtype), seed=2)
    out = np.empty((shape.M, shape.N), dtype)
    names = ("classical", *_CROSSOVER_SCHEMES)
    backend = "cpu" if backends()["cpu"] == "available" else "auto"
    sides: list[Callable[[], Any]] = [
        partial(falcon.gemm, a, b, out=out, scheme=x, threads=threads, backend=backend)
        for x in names
    ]
    pairs = interleave(sides, _CROSSOVER_ROUNDS)
    speedups = {}
    for i, name in enumerate(names[1:], 1):
        spread = Spread.of(x / y for x, y in zip(pairs.seconds[0], pairs.seconds[i], strict=True))
        speedups[name] = {"median": spread.median, "q1": spread.q1, "q3": spread.q3}
    plan = falcon.plan(a, b, threads=threads)
    return {**_of(shape, dtype), "speedups": speedups, "chosen": plan.option.label}


def _of(shape: Shape, dtype: str) -> dict[str, Any]:
    return {"M": shape.M, "N": shape.N, "K": shape.K, "dtype": dtype}


def _sizes(shape: Shape) -> str:
    return f"{shape.M}x{shape.N}x{shape.K}"


def _flops(shape: Shape) -> float:
    return 2.0 * shape.M * shape.N * shape.K
