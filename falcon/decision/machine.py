"""The machine profile: speeds of the machine, loaded at first need (never at import).

A process starts with rates that an earlier process measured and stored, or else with shipped rates
that a probe of some milliseconds scales. It keeps them until it ends (`upkeep.py` says when it
measures, for later processes).

No kernels are imported here: each backend has its own ``measure`` and ``identity``. The host has a
profile, and so has each GPU in use. A file is named after its key (CPU, instruction set, kernels,
versions of falcon, NumPy and its BLAS; or the GPU and its driver), so another machine has another
file; FALCON_PROFILE names a file for the host, which is used whatever its key is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from falcon._core.backend import Backend
from falcon._core.dtypes import DType
from falcon._core.fit import fastest
from falcon._core.locks import ForkLock, in_forked_child
from falcon._core.options import Options, cache_folder, profile_file
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._core.rates import Rates, is_measured
from falcon._version import __version__

from .hardware import Streaming, cache_sizes, cpu_model, streaming
from .store import ForeignError, RatesTable, file_name, read_profile, write_profile

_log = logging.getLogger("falcon")

# A small product is timed when the profile is made, and again later. If the times differ by more
# than _MISFIT, the profile does not fit the machine (half of the speed may be due to another
# process). If it is faster by _FASTER, the profile was measured while the machine was busy.
_MISFIT = 2.2
_FASTER = 1.15
_PROBED_SIZE = 512


@dataclass(frozen=True)
class MachineProfile:
    """Measured speeds of this machine, or of a GPU.

    Attributes
    ----------
    rates : dict of (backend, dtype name, threads) to the backend's rates
    streaming : dict of int to Streaming
        Bandwidth of caches and memory per number of threads; measured by `python -m falcon tune`.
    key : dict of str to str
        The hardware and software that the measurements are valid for.
    caches : dict of str to int
        Sizes in bytes, as the system tells them.
    path : Path or None
        The file that it is read from and written to; None if only this process has it.
    pinned : bool
        FALCON_PROFILE names the file: it is used as it is, and only `tune` writes to it.
    """

    rates: RatesTable = field(default_factory=dict)
    streaming: dict[int, Streaming] = field(default_factory=dict)
    key: dict[str, str] = field(default_factory=dict)
    caches: dict[str, int] = field(default_factory=dict)
    path: Path | None = None
    pinned: bool = False

    def __str__(self) -> str:
        lines = [f"{name:<14}{value}" for name, value in self.key.items()]
        if self.caches:
            sizes = (f"{name} {size // 1024} KiB" for name, size in self.caches.items())
            lines.append(f"{'caches':<14}{', '.join(sizes)}")
        if self.path is not None:
            lines.append(f"{'file':<14}{self.path}{' (FALCON_PROFILE)' if self.pinned else ''}")
        for threads, x in sorted(self.streaming.items()):
            speeds = ", ".join(
                f"{level} {x.read[level] / 1e9:.0f} / {x.copy[level] / 1e9:.0f}" for level in x.read
            )
            lines.append(f"{threads} threads: read / copy GB/s {speeds}")
        for (backend, dtype, threads), y in sorted(self.rates.items()):
            lines.append(f"{backend} {dtype} {threads} threads: {y}")
        if not self.rates:
            lines.append("nothing known yet: the first decision that needs rates loads them")
        return "\n".join(lines)


_lock = ForkLock()
_profiles: dict[int | None, MachineProfile] = {}  # by device; None is the host
_kept = True  # False: the profile could not be written
_revision = 0


def revision() -> int:
    """Return a number that grows when a new profile replaces the one that plans were made with."""
    return _revision


def replaced() -> None:
    """Make all plans outdated, because what they depend on has changed."""
    global _revision
    with _lock.lock:
        _revision += 1


def profile(backends: Sequence[Backend], device: int | None = None) -> MachineProfile:
    """Return what is known of this machine: read from the file once, never measured here.

    Parameters
    ----------
    backends : sequence of Backend
        All that run on the host, or on the device: the key names them.
    device : int, optional
        Number of a GPU; None is the host.
    """
    found = _profiles.get(device)
    if found is None:
        with _lock.lock:
            found = _profiles.get(device)
            if found is None:
                found = _profiles[device] = _load(backends, device)
    return found


def rates(backend: Backend, problem: Problem, backends: Sequence[Backend]) -> Any:
    """Return the rates of a backend for a problem's dtype, threads and device.

    If the profile has none, they are the backend's starting rates, or measured if it has none of
    these either (as on a device), and are stored.

    Parameters
    ----------
    backends : sequence of Backend
        See `profile`.
    """
    problem = problem.measured
    key, device = entry(backend.name, problem), problem.device
    held = profile(backends, device)
    known = held.rates.get(key)
    if known is not None:
        return known
    with _lock.lock:
        held = _profiles.get(device, held)
        if key not in held.rates:  # no other thread has added them meanwhile
            found = None
            if device is None:
                found = backend.starting(problem, not held.pinned)
            if found is None:
                found = _measure(backend, problem)
            _profiles[device] = held = replace(held, rates={**held.rates, key: found})
            if not held.pinned and not (in_forked_child() and problem.threads > 1):
                _save(held, backends)
    return held.rates[key]


def entry(backend: str, problem: Problem) -> tuple[str, str, int]:
    """Return the key of a profile's entry."""
    name = problem.operand.name
    return backend, f"{name} tf32" if problem.tf32 else name, problem.threads


def _measure(backend: Backend, problem: Problem, thorough: bool = False) -> Any:
    if not thorough:
        name, dtype, threads = entry(backend.name, problem)
        _log.info("falcon: measuring %s %s, %d threads (a second, once)", name, dtype, threads)
    found = backend.measure(problem, thorough)
    if problem.device is None:
        found = replace(found, probe=_probe(backend, problem.operand, problem.threads))
    return found


def is_kept(backends: Sequence[Backend]) -> bool:
    """Whether measurements are stored for later processes."""
    return profile(backends).path is not None and _kept


def measure_for_later(backend: Backend, problem: Problem, backends: Sequence[Backend]) -> None:
    """Measure a backend and store its rates for later processes; this one keeps those it has."""
    found = {entry(backend.name, problem): _measure(backend, problem)}
    with _lock.lock:
        _save(replace(profile(backends), rates=found), backends)


def is_faster_than_stored(backend: Backend, problem: Problem, backends: Sequence[Backend]) -> bool:
    """Whether a small product is faster than stored: the rates are those of a busy machine."""
    known = profile(backends).rates[entry(backend.name, problem)]
    slower = _slower_than_stored(backend, problem.operand, problem.threads, known)
    return slower * _FASTER < 1


def measure_all(
    backends: Sequence[Backend],
    dtypes: Iterable[DType],
    threads: Sequence[int],
    tick: Callable[[str], None],
    *,
    thorough: bool = True,
) -> MachineProfile:
    """Measure everything, replace the profile and store it.

    Parameters
    ----------
    thorough : bool
        Measure each backend for some seconds, and the bandwidths. Otherwise about a second for
        each backend, and only rates that are not measured yet.
    tick : callable
        Called with the name of each step before it begins.

    Raises
    ------
    OSError
        FALCON_PROFILE names a file that cannot be written.
    """
    global _revision
    base = profile(backends)
    found: RatesTable = dict(base.rates) if not (base.pinned and thorough) else {}
    speeds: dict[int, Streaming] = {} if thorough else dict(base.streaming)
    try:
        for count in threads:
            if thorough:
                tick(f"caches and memory, {count} threads")
                speeds[count] = streaming(count)
            for dtype in dtypes:
                problem = Problem.of((1024,) * 3, dtype, Options(threads=count))
                able = [x for x in backends if x.why_classical_only(problem) is None]
                # Types without BLAS are multiplied by the first backend only.
                for backend in able if dtype.has_blas else able[:1]:
                    key = entry(backend.name, problem)
                    if not (key in found and found[key].measured and not thorough):
                        tick(f"{backend.name} {dtype.name}, {count} threads")
                        found[key] = _measure(backend, problem, thorough)
    finally:  # Ctrl-C leaves what was measured so far
        about = _key(backends, None)
        made = MachineProfile(found, speeds, about, cache_sizes(), base.path, base.pinned)
        with _lock.lock:
            _profiles[None], _revision = made, _revision + 1
        if made.pinned and made.path is not None:
            write_profile(made.path, made.key, made.rates, made.streaming, made.caches)
        else:
            _save(made, backends)
    return made


def _key(backends: Sequence[Backend], device: int | None) -> dict[str, str]:
    key = {"falcon": __version__, "cpu": f"{cpu_model()}, {os.cpu_count()} CPUs"}
    for backend in backends:
        key |= {f"{backend.name}.{name}": value for name, value in backend.identity(device).items()}
    return key


def _kinds(backends: Sequence[Backend]) -> dict[str, type]:
    return {backend.name: backend.rates_type for backend in backends}


def _load(backends: Sequence[Backend], device: int | None) -> MachineProfile:
    key, folder = _key(backends, device), cache_folder()
    on_host = device is None
    asked, caches = (profile_file(), cache_sizes()) if on_host else (None, {})
    path = asked or (folder / file_name("profile", key) if folder is not None else None)
    empty = MachineProfile({}, {}, key, caches, path, asked is not None)
    if path is None:
        return empty
    try:
        stored, found, speeds = read_profile(path, _kinds(backends))
    except FileNotFoundError:
        if asked is not None:
            _log.warning("falcon: FALCON_PROFILE names %s, which does not exist", path)
        return empty
    except (OSError, ForeignError) as error:
        _log.warning("falcon: profile %s is ignored: %s", path, error)
        return empty
    if stored != key:
        names = sorted(x for x in {*stored, *key} if stored.get(x) != key.get(x))
        other = "; ".join(f"{x} is {key.get(x)!r}, there {stored.get(x)!r}" for x in names)
        if asked is None:
            _log.warning("falcon: profile %s is ignored: it is another machine's (%s)", path, other)
            return empty
        _log.warning("falcon: FALCON_PROFILE %s is another machine's (%s)", path, other)
    return MachineProfile(found, speeds, key, caches, path, asked is not None)


def _save(made: MachineProfile, backends: Sequence[Backend]) -> None:
    """Write the profile, with what other processes have added, if there is a folder for it."""
    global _kept
    if made.path is None:
        return
    merged, speeds = made.rates, made.streaming
    try:
        stored, found, others = read_profile(made.path, _kinds(backends))
        if stored == made.key:
            # Rates that other processes have measured are better than starting rates.
            mine = {k: x for k, x in merged.items() if k not in found or is_measured(x)}
            merged, speeds = {**found, **mine}, {**others, **speeds}
    except (OSError, ForeignError):
        pass
    try:
        write_profile(made.path, made.key, merged, speeds, made.caches)
    except OSError as error:
        _kept = False
        _log.info("falcon: the profile is not stored, only this process has it: %s", error)


def _slower_than_stored(backend: Backend, dtype: DType, threads: int, stored: Rates) -> float:
    """Return the time of a small product over that in the profile; log it if that does not fit."""
    if not stored.probe:
        return 1.0
    least, ratio = float("inf"), 1.0
    for pause in (0.0, 0.02, 0.1):  # again, in case something else was running
        sleep(pause)
        least = min(least, _probe(backend, dtype, threads))
        ratio = least / stored.probe
        if 1 / _MISFIT < ratio < _MISFIT:
            break
    else:
        _log.info(
            "falcon: the profile does not fit this machine, or it is busy: a product of %d^3 in %s "
            "takes %.2f ms on backend %s with %d threads, not %.2f; `python -m falcon tune` makes "
            "a new one",
            *(_PROBED_SIZE, dtype, least * 1e3, backend.name, threads, stored.probe * 1e3),
        )
    return ratio


def _probe(backend: Backend, dtype: DType, threads: int) -> float:
    """Seconds of the fastest of some small products; 0.0 for types without BLAS, and complex."""
    if not dtype.has_blas or dtype.is_complex:
        return 0.0
    size = _PROBED_SIZE
    problem = Problem.of((size,) * 3, dtype, Options(threads=threads))
    plan = Plan(problem, backend, backend.candidates(problem, (None,), None)[0], "")
    a, b, out = np.ones((3, size, size), dtype.numpy)
    return fastest(lambda: backend.execute(plan, a, b, None, out), 5)
