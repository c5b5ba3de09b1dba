"""The machine profile: measured speeds, made at first need (never at import), kept on disk.

The profile does not import kernels: each backend's own ``measure`` and ``identity`` are used. It is
stored per key (CPU, instruction set, kernels, versions of falcon, NumPy and its BLAS), so that on
another machine another file is looked for; FALCON_PROFILE names the file to use whatever its key.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep

import numpy as np

from falcon._core.backend import Backend
from falcon._core.fit import fastest
from falcon._core.locks import ForkLock
from falcon._core.options import cache_folder, profile_file
from falcon._core.plan import Plan, Rates
from falcon._core.problem import Problem
from falcon._version import __version__

from .hardware import Streaming, cache_sizes, cpu_model, streaming
from .store import ForeignError, RatesTable, file_name, read_profile, write_profile

_log = logging.getLogger("falcon")

# A small product is timed when the profile is made, and again later. Another time by more than this
# factor: the profile does not fit the machine. Half of the speed may be another process's fault;
# but what is faster than before was measured while something else held the machine.
_MISFIT = 2.2
_FASTER = 1.15
_PROBED_SIZE = 512
# How often a process does so per entry, and the seconds between: a slow minute must end first.
_CHECKS = 3
_CHECK_PAUSE = 45.0


@dataclass(frozen=True)
class MachineProfile:
    """Measured speeds of this machine.

    Attributes
    ----------
    rates : dict of (backend, dtype name, threads) to Rates
    streaming : dict of int to Streaming
        Bandwidth of caches and memory per number of threads; measured by `python -m falcon tune`.
    key : dict of str to str
        What the measurements hold for.
    caches : dict of str to int
        Sizes in bytes, as the system tells.
    path : Path or None
        The file that it comes from, or is kept in; None where it lives in this process alone.
    pinned : bool
        FALCON_PROFILE named the file: it is used as it is, and never written to but by `tune`.
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
            lines.append(
                f"{backend} {dtype} {threads} threads: multiply {y.multiply / 1e9:.1f} GFLOP/s, "
                f"add {_giga(y.add)} GFLOP/s, combine {_giga(y.bandwidth)} G elements/s"
            )
        if not self.rates:
            lines.append(
                "nothing measured yet: falcon measures at the first decision that needs it"
            )
        return "\n".join(lines)


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.2f}" if rate < 1e13 else "beyond measure"


_lock = ForkLock()
_profile: MachineProfile | None = None
_checks: dict[tuple[str, str, int], tuple[int, float]] = {}  # how many, and when the last was
_revision = 0


def revision() -> int:
    """Return a number that grows when a new profile replaces the one that plans were made with."""
    return _revision


def replaced() -> None:
    """Make plans anew: what they depend on has changed."""
    global _revision
    with _lock.lock:
        _revision += 1


def profile(backends: Sequence[Backend]) -> MachineProfile:
    """Return what is known of this machine: read from the file once, never measured here.

    Parameters
    ----------
    backends : sequence of Backend
        All that run here: the key names them.
    """
    global _profile
    if _profile is None:
        with _lock.lock:
            if _profile is None:
                _profile = _load(backends)
    return _profile


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype) -> str:
    """Its name, which NumPy makes anew at each look (microseconds)."""
    return dtype.name


def rates(backend: Backend, dtype: np.dtype, threads: int, backends: Sequence[Backend]) -> Rates:
    """Return the rates of a backend for a dtype: stored, or measured once and then stored."""
    global _profile, _revision
    key = (backend.name, _name_of(dtype), threads)
    found_in = profile(backends)
    known = found_in.rates.get(key)
    if known is not None and not _outdated(key, backend, dtype, threads, known, found_in.pinned):
        return known
    with _lock.lock:
        assert _profile is not None  # for type checkers
        if _profile.rates.get(key) is known:  # no other thread has measured meanwhile
            _profile = replace(
                _profile, rates={**_profile.rates, key: _measure(backend, dtype, threads)}
            )
            _revision += known is not None
            if not _profile.pinned:
                _save(_profile)
    return _profile.rates[key]


def _measure(backend: Backend, dtype: np.dtype, threads: int, thorough: bool = False) -> Rates:
    found = replace(
        backend.measure(dtype, threads, thorough), probe=_probe(backend, dtype, threads)
    )
    _checks.setdefault((backend.name, _name_of(dtype), threads), (0, monotonic()))
    return found


def _outdated(
    key: tuple[str, str, int],
    backend: Backend,
    dtype: np.dtype,
    threads: int,
    known: Rates,
    pinned: bool,
) -> bool:
    """Tell whether these rates are worth measuring anew, looking at the machine now and then."""
    count, last = _checks.get(key, (0, -_CHECK_PAUSE))
    now = monotonic()
    if count >= _CHECKS or now - last < _CHECK_PAUSE:
        return False
    _checks[key] = count + 1, now
    # A machine that is slower is busy now and will be as fast as stored again.
    return _slower_than_stored(backend, dtype, threads, known, pinned) * _FASTER < 1 and not pinned


def measure_all(
    backends: Sequence[Backend],
    dtypes: Iterable[np.dtype],
    threads: Sequence[int],
    tick: Callable[[str], None],
) -> MachineProfile:
    """Measure everything thoroughly, replace the profile and store it.

    Parameters
    ----------
    tick : callable
        Called with the name of each step before it begins.

    Raises
    ------
    OSError
        FALCON_PROFILE names a file that cannot be written.
    """
    global _profile, _revision
    base = profile(backends)
    found: RatesTable = dict(base.rates) if not base.pinned else {}
    speeds: dict[int, Streaming] = {}
    for count in threads:
        tick(f"caches and memory, {count} threads")
        speeds[count] = streaming(count)
        for dtype in dtypes:
            for backend in backends:
                if backend.supports(Problem(1024, 1024, 1024, dtype, threads=count)) is None:
                    tick(f"{backend.name} {dtype.name}, {count} threads")
                    found[backend.name, dtype.name, count] = _measure(backend, dtype, count, True)
    made = MachineProfile(found, speeds, _key(backends), cache_sizes(), base.path, base.pinned)
    with _lock.lock:
        _profile, _revision = made, _revision + 1
    if made.pinned and made.path is not None:
        write_profile(made.path, made.key, made.rates, made.streaming, made.caches)
    else:
        _save(made)
    return made


def _key(backends: Sequence[Backend]) -> dict[str, str]:
    key = {"falcon": __version__, "cpu": f"{cpu_model()}, {os.cpu_count()} CPUs"}
    for backend in backends:
        key |= {f"{backend.name}.{name}": value for name, value in backend.identity().items()}
    return key


def _load(backends: Sequence[Backend]) -> MachineProfile:
    key, caches = _key(backends), cache_sizes()
    asked, folder = profile_file(), cache_folder()
    path = asked or (folder / file_name("profile", key) if folder is not None else None)
    empty = MachineProfile({}, {}, key, caches, path, asked is not None)
    if path is None:
        return empty
    try:
        stored, found, speeds = read_profile(path)
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


def _save(made: MachineProfile) -> None:
    """Write the profile, with what other processes have added; without a folder, do without."""
    if made.path is None:
        return
    merged, speeds = made.rates, made.streaming
    try:
        stored, found, others = read_profile(made.path)
        if stored == made.key:
            merged, speeds = {**found, **merged}, {**others, **speeds}
    except (OSError, ForeignError):
        pass
    try:
        write_profile(made.path, made.key, merged, speeds, made.caches)
    except OSError as error:
        _log.info("falcon: the profile lives in this process alone: %s", error)


def _slower_than_stored(
    backend: Backend, dtype: np.dtype, threads: int, stored: Rates, pinned: bool
) -> float:
    """Time a small product over what it took for the profile; say so where that does not fit."""
    if not stored.probe:
        return 1.0
    least, ratio = float("inf"), 1.0
    for pause in (0.0, 0.02, 0.1):  # again where something else ran just then
        sleep(pause)
        least = min(least, _probe(backend, dtype, threads))
        ratio = least / stored.probe
        if 1 / _MISFIT < ratio < _MISFIT:
            break
    else:
        _log.log(
            logging.WARNING if pinned else logging.INFO,
            "falcon: the profile does not fit this machine, or it is busy: a product of %d^3 in %s "
            "takes %.2f ms on backend %s with %d threads, not %.2f; `python -m falcon tune` makes "
            "a new one",
            *(_PROBED_SIZE, dtype, least * 1e3, backend.name, threads, stored.probe * 1e3),
        )
    return ratio


def _probe(backend: Backend, dtype: np.dtype, threads: int) -> float:
    """Seconds of the fastest of some small products; 0.0 where NumPy has no BLAS to compare."""
    if dtype.char not in "fd":
        return 0.0
    size = _PROBED_SIZE
    problem = Problem(size, size, size, dtype, threads=threads)
    plan = Plan(problem, backend, backend.candidates(problem, (None,), None)[0], "")
    a, b, out = np.ones((3, size, size), dtype)
    return fastest(lambda: backend.execute(plan, a, b, None, out), 5)
