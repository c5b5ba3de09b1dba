"""The machine profile: what was measured here, loaded at first need (never at import).

It holds what `falcon.tune` has measured, rates and choices, and the rates of GPUs. `rates.py` finds
those of what was not measured.

No kernels are imported here: each backend has its own ``measure`` and ``identity``. The host has a
profile, and so has each GPU in use. A file is named after its key (CPU, instruction set, kernels,
versions of falcon, NumPy and its BLAS; or the GPU and its driver), so another machine has another
file; FALCON_PROFILE names a file for the host, which is used whatever its key is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace

from falcon._core.environment import cache_folder, profile_file
from falcon._core.plan import Backend
from falcon._tools.cpus import cpu_model
from falcon._tools.locks import ForkLock
from falcon._version import __version__

from .store import Fastest, ForeignError, RatesTable, file_name, read, write
from .store import MachineProfile as MachineProfile

_log = logging.getLogger("falcon")


_lock = ForkLock()
_profiles: dict[int | None, MachineProfile] = {}  # by device; None is the host
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

    `backends`: all that run on the host, or on the device: the key names them.
    `device`: number of a GPU; None is the host.
    """
    found = _profiles.get(device)
    if found is None:
        with _lock.lock:
            found = _profiles.get(device)
            if found is None:
                found = _profiles[device] = _load(backends, device)
    return found


def add(
    backends: Sequence[Backend],
    device: int | None = None,
    rates: RatesTable | None = None,
    choices: dict[str, Fastest] | None = None,
) -> MachineProfile:
    """Add what was measured to the profile, and store it; plans that were made are outdated.

    Raises OSError: FALCON_PROFILE names a file that cannot be written.
    """
    before = profile(backends, device)
    new: tuple[RatesTable, dict[str, Fastest]] = (rates or {}, choices or {})
    with _lock.lock:
        before = _profiles.get(device, before)
        if not before.pinned and before.path is not None:  # what other processes have added
            before = _with(_load(backends, device, logging.DEBUG), before.rates, before.choices)
        made = _profiles[device] = _with(before, *new)
    if device is None:
        replaced()
    if made.path is not None:
        try:
            write(made.path, made)
        except OSError as error:
            if made.pinned:
                raise
            _log.info("falcon: the profile is not stored, only this process has it: %s", error)
    return made


def _with(x: MachineProfile, rates: RatesTable, choices: dict[str, Fastest]) -> MachineProfile:
    return replace(x, rates={**x.rates, **rates}, choices={**x.choices, **choices})


def _load(
    backends: Sequence[Backend], device: int | None, level: int = logging.WARNING
) -> MachineProfile:
    """Read a profile; what is wrong with it is logged at a level."""
    key, folder = _key(backends, device), cache_folder()
    pinned = profile_file() if device is None else None
    path = pinned or (folder / file_name(key) if folder is not None else None)
    empty = MachineProfile({}, {}, key, path, pinned is not None)
    if path is None:
        return empty
    try:
        found = read(path, {backend.name: backend.rates_type for backend in backends})
    except FileNotFoundError:
        if pinned is not None:
            _log.log(level, "falcon: FALCON_PROFILE names %s, which does not exist", path)
        return empty
    except (OSError, ForeignError) as error:
        _log.log(level, "falcon: profile %s is ignored: %s", path, error)
        return empty
    if pinned is not None and found.key != key:  # other files are found by their key
        names = sorted(x for x in {*found.key, *key} if found.key.get(x) != key.get(x))
        other = "; ".join(f"{x} is {key.get(x)!r}, there {found.key.get(x)!r}" for x in names)
        _log.log(level, "falcon: FALCON_PROFILE %s is another machine's (%s)", path, other)
    return replace(empty, rates=found.rates, choices=found.choices)


def _key(backends: Sequence[Backend], device: int | None) -> dict[str, str]:
    key = {"falcon": __version__, "cpu": f"{cpu_model()}, {os.cpu_count()} CPUs"}
    for backend in backends:
        key |= {f"{backend.name}.{name}": value for name, value in backend.identity(device).items()}
    return key
