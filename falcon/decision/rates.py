"""The rates that this process decides by.

::

    profile (falcon tune), else shipped (starting.json)
        x how much slower each backend is here: probes
        --> rates

A process keeps the rates that it started with. Only a GPU, for which none are shipped, is measured
when it is first needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Any

from falcon._core.backend import Backend
from falcon._core.dtypes import DType
from falcon._core.options import Options
from falcon._core.problem import Problem

from . import learned
from .machine import MachineProfile, add_rates, entry, profile, replaced
from .starting import PROBED, believed, probed, starting
from .store import RatesTable

_log = logging.getLogger("falcon")

# Speeds are rounded to such steps, so that most processes decide by the same ones.
_STEP = 1.01

# What this process decides by: rates by entry and device, and per dtype how much slower than the
# shipped rates each backend is.
_rates: dict[tuple[Any, int | None], Any] = {}
_slower: dict[str, dict[str, float]] = {}


def rates(backend: Backend, problem: Problem, backends: Sequence[Backend]) -> Any:
    """Return the rates of a backend for a problem's dtype, threads and device.

    Those of the profile, or shipped ones, scaled. A GPU is measured if its profile has none (a
    second), without a lock: several threads may do so at once, and the first one counts.

    `backends`: see `profile`.
    """
    problem = problem.measured
    key = entry(backend.name, problem), problem.device
    found = _rates.get(key)
    if found is None:
        found = _rates.setdefault(key, _rates_now(backend, problem, backends))
    return found


def _rates_now(backend: Backend, problem: Problem, backends: Sequence[Backend]) -> Any:
    key, device = entry(backend.name, problem), problem.device
    machine = profile(backends, device)
    found = machine.rates.get(key)
    if device is not None:
        if found is None:
            _log.info("falcon: measuring %s %s (a second, once)", *key[:2])
            found = backend.measure(problem)
            add_rates({key: found}, backends, device)
        return found
    found = found or starting(backend, problem)
    if found is None:
        raise RuntimeError(f"falcon ships no rates of backend {backend.name!r}")
    return found if machine.pinned else found.slower(speeds(problem, backends)[backend.name])


def speeds(problem: Problem, backends: Sequence[Backend]) -> dict[str, float]:
    """Return how much slower each backend is, for a problem of the host, than rates say.

    It is as the probes found it; 1.0 if the profile has its rates.
    """
    problem = problem.measured
    able = [x for x in backends if x.why_not(problem) is None]
    measured = profile(backends).rates
    shipped = [x for x in able if entry(x.name, problem) not in measured]
    found = _probed(problem.operand, able, backends) if shipped else {}
    result = {x.name: found.get(x.name, 1.0) if x in shipped else 1.0 for x in able}
    return {name: _STEP ** round(log(x) / log(_STEP)) for name, x in result.items()}


def _probed(
    operand: DType, able: Sequence[Backend], backends: Sequence[Backend]
) -> dict[str, float]:
    """Return how much slower than recorded the backends are: the fastest of all processes."""
    found = _slower.get(operand.name)
    if found is None:
        count, found = learned.known(backends).speeds.get(operand.name, (0, {}))
        if count < PROBED:
            now, count = probed(able, operand), count + 1
            if now:
                learned.change(lambda x: x.add_speeds(operand.name, now), backends)
            found = {x: min(y, found.get(x, y)) for x, y in now.items()}
        found = _slower.setdefault(operand.name, believed(found, count, able, operand))
    return found


def measure_all(
    backends: Sequence[Backend],
    dtypes: Iterable[DType],
    threads: Sequence[int],
    tick: Callable[[str], None],
) -> MachineProfile:
    """Measure everything, replace the profile and store it.

    `tick`: called with the name of each step before it begins.
    Raises OSError: FALCON_PROFILE names a file that cannot be written.
    """
    found: RatesTable = {}
    try:
        for count in threads:
            for dtype in dtypes:
                problem = Problem.of((1024,) * 3, dtype, Options(threads=count))
                able = [x for x in backends if x.why_classical_only(problem) is None]
                # A library without BLAS for the type multiplies it only where nothing else does.
                others = [x for x in able if not x.is_library]
                for backend in able if dtype.has_blas else others or able:
                    tick(f"{backend.name} {dtype.name}, {count} threads")
                    found[entry(backend.name, problem)] = backend.measure(problem, thorough=True)
    finally:  # Ctrl-C leaves what was measured so far
        made = add_rates(found, backends, None)
        _rates.clear()
        replaced()
    return made
