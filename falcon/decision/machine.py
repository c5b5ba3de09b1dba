"""The machine profile: measured speeds per backend and dtype, made at first need, never at import.

The profile does not import kernels: a backend's own ``measure`` is handed in.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from falcon._plan import Rates


@dataclass(frozen=True)
class MachineProfile:
    """Measured rates of this machine.

    Attributes
    ----------
    rates : dict of (backend, dtype name, threads) to Rates
    """

    rates: dict[tuple[str, str, int], Rates] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.rates:
            return "nothing measured yet: falcon measures at the first decision that needs it"
        lines = []
        for (backend, dtype, threads), x in sorted(self.rates.items()):
            lines.append(
                f"{backend} {dtype} {threads} threads: multiply {x.multiply / 1e9:.1f} GFLOP/s, "
                f"add {x.add / 1e9:.1f} GFLOP/s, memory {x.bandwidth / 1e9:.2f} G elements/s"
            )
        return "\n".join(lines)


_lock = threading.Lock()
_profile = MachineProfile()


def _renew_lock() -> None:
    """Forget a lock that another thread held when the process forked."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def machine() -> MachineProfile:
    """Return what has been measured of this machine so far in this process.

    Returns
    -------
    MachineProfile
        Immutable; a later decision that needs another backend or dtype makes a new one.
    """
    return _profile


def rates(
    backend: str, dtype: np.dtype, threads: int, measure: Callable[[np.dtype, int], Rates]
) -> Rates:
    """Return the rates of a backend for a dtype, measuring them once per process."""
    global _profile
    key = (backend, dtype.name, threads)
    if key not in _profile.rates:
        with _lock:
            if key not in _profile.rates:
                _profile = MachineProfile({**_profile.rates, key: measure(dtype, threads)})
    return _profile.rates[key]
