"""Measurements of falcon alone, as small tasks: peak, stages, errors and the crossover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.timing import REST_SECONDS, Estimate, Side, interleave
from falcon._cpu import peak
from falcon._cpu.profile import StageProfile
from falcon._front.info import backends

from .errors import sampled_error
from .workloads import Shape, guessed_seconds, operands

_ERROR_SCHEMES = ("classical", "strassen", "winograd", "3x3x3:23", "strassen@strassen",
                  "3x4x5:48", "5x5x5:93")  # fmt: skip
_ERROR_SIZES = (240, 480, 960, 1920, 3840)
_STAGE_SHAPES = (
    Shape(1024, 1024, 1024), Shape(2048, 2048, 2048), Shape(4096, 4096, 4096),
    Shape(2048, 4608, 3584), Shape(512, 14336, 4096),
)  # fmt: skip
_CROSSOVER_M = (512, 1024, 1536, 2048, 3072, 4096)
_CROSSOVER_K = (256, 512, 1024, 2048, 4096)
# For stages and the crossover; the others are compared with the first.
_SCHEMES = ("classical", "strassen", "strassen@strassen")
_ROUNDS = 5
# Seconds after which no rounds beyond these begin.
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Task:
    """A small measurement: its name, its kind (a list of the record file), a guess of its time.

    `run` returns the entries that are added to that list; for the peak, the only entry.
    """

    key: str
    kind: str
    seconds: float
    run: Callable[[], list[dict[str, Any]]]


def tasks(threads: int, dtypes: tuple[str, ...], *, quick: bool) -> Iterator[Task]:
    """Return the tasks; `quick` leaves most of them out."""
    yield Task("peak", "peak", 8.0, partial(_peak, threads))
    for dtype in dtypes:
        if of(dtype).engine is None:
            continue
        for shape in _STAGE_SHAPES[1:2] if quick else _STAGE_SHAPES:
            run = partial(_stages, shape, dtype, threads)
            yield Task(f"stages {shape} {dtype}", "stages", _guess(shape), run)
        for size in _ERROR_SIZES[1:4] if quick else _ERROR_SIZES:
            shape = Shape(size, size, size)
            seconds = 0.5 + len(_ERROR_SCHEMES) * guessed_seconds(shape)
            run = partial(_errors, shape, dtype, threads)
            yield Task(f"errors {shape} {dtype}", "errors", seconds, run)
        for size in _CROSSOVER_M[1:4:2] if quick else _CROSSOVER_M:
            for K in _CROSSOVER_K[1:4] if quick else _CROSSOVER_K:
                shape = Shape(size, size, K)
                run = partial(_crossover, shape, dtype, threads)
                yield Task(f"crossover {shape} {dtype}", "crossover", _guess(shape), run)


def _guess(shape: Shape) -> float:
    """Guess the seconds of interleaved rounds of all schemes."""
    return len(_SCHEMES) * (_ROUNDS + 1) * (REST_SECONDS + 0.1 + guessed_seconds(shape))


def _peak(threads: int) -> list[dict[str, Any]]:
    found = [{"dtype": x.dtype, "isa": x.isa, "gflops": round(x.gflops, 2)}
             for x in peak.measure(threads)]  # fmt: skip
    return [{"threads": threads, "gflops": found}]


def _stages(shape: Shape, dtype: str, threads: int) -> list[dict[str, Any]]:
    a, b = operands(shape, of(dtype).numpy, seed=1)
    about = {**shape.sizes(), "dtype": dtype}
    chosen = [(x, None if x == "classical" else falcon.schemes.get(x)) for x in _SCHEMES]
    try:
        profiles = [StageProfile(a, b, scheme, threads) for _, scheme in chosen]
    except RuntimeError as error:
        return [{**about, "scheme": name, "failed": str(error)} for name in _SCHEMES]
    sides = [Side(name, x.seconds) for name, x in zip(_SCHEMES, profiles, strict=True)]
    found = interleave(sides, _ROUNDS, seconds=_SECONDS)
    return [
        {
            **about,
            "scheme": side.name,
            "total": side.median,
            "speedup": side.over(found[0]).document(),
            **profile.summary(),
        }
        for side, profile in zip(found, profiles, strict=True)
    ]


def _errors(shape: Shape, dtype: str, threads: int) -> list[dict[str, Any]]:
    """Return the measured errors of some schemes on one product, and their predicted growth."""
    a, b = operands(shape, of(dtype).numpy, seed=shape.M)
    measured, growth = {}, {}
    for name in _ERROR_SCHEMES:
        product = falcon.gemm(a, b, scheme=name, threads=threads, max_growth=1e9)
        measured[name] = sampled_error(a, b, product)
        growth[name] = 1.0 if name == "classical" else falcon.schemes.get(name).rms_growth
    return [{"size": shape.M, "dtype": dtype, "measured": measured, "growth": growth}]


def _crossover(shape: Shape, dtype: str, threads: int) -> list[dict[str, Any]]:
    """Compare schemes with falcon's classical path; also return what "auto" would choose."""
    a, b = operands(shape, of(dtype).numpy, seed=2)
    out = np.empty((shape.M, shape.N), dtype)
    backend = "cpu" if backends()["cpu"] == "available" else "auto"
    call = partial(falcon.gemm, a, b, out=out, threads=threads, backend=backend)
    sides = [Side.of(name, partial(call, scheme=name)) for name in _SCHEMES]
    classical, *others = interleave(sides, _ROUNDS, seconds=_SECONDS)
    speedups: dict[str, Estimate] = {x.name: x.over(classical) for x in others}
    return [
        {
            **shape.sizes(),
            "dtype": dtype,
            "speedups": {name: x.document() for name, x in speedups.items()},
            "chosen": falcon.plan(a, b, threads=threads).option.label,
        }
    ]
