"""Limits on the number of threads: the usable CPUs, and threadpoolctl's limits.

falcon is registered with threadpoolctl, so that ``threadpool_limits(1)`` limits it like NumPy's
BLAS.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from os.path import realpath

from threadpoolctl import LibController, register

from falcon._version import __version__

from .cpus import usable_cpus

_log = logging.getLogger("falcon")

# The limit if more threads than CPUs are allowed.
_LARGEST = 1024
# Whether NumPy's BLAS runs its jobs on falcon's threads (`falcon._cpu.share`).
are_shared = False
# Lets calls of this thread run on so many of an OpenMP, by a function that finds its parallel
# region (`falcon._cpu.share`); None: falcon's kernels have not run.
meet: Callable[[int, Callable[[], int]], None] | None = None
_reported: set[int] = set()  # requests above the limit that have been logged


class _Limit(threading.local):
    of_thread: int | None = None


# A limit set in the main thread holds for the whole process, one set in another thread only for
# that thread: two threads that set and restore the same limit could leave it changed.
_limit = _Limit()
_limit_of_process: int | None = None


def limit_here() -> int:
    """CPUs that a call in this thread may use now; plans depend on it."""
    cpus, limit = usable_cpus(), _limit.of_thread or _limit_of_process
    return cpus if limit is None or limit > cpus else limit


def within_limits(requested: int | None, usual: int = 0, *, oversubscribed: bool = False) -> int:
    """Return how many threads a call uses for a request; None requests `usual`, or all CPUs."""
    most = limit_here()
    if oversubscribed:
        most = _limit.of_thread or _limit_of_process or _LARGEST
    if requested is None:
        return min(usual or usable_cpus(), most)
    if requested > most and requested not in _reported:
        _reported.add(requested)
        _log.warning("falcon: %d threads were requested; at most %d are used", requested, most)
    return min(requested, most)


class FalconController(LibController):
    """threadpoolctl's interface to the limit of falcon's threads."""

    user_api = "blas"
    internal_api = "falcon"
    filename_prefixes = ("_core.",)
    check_symbols = ("get_num_threads",)

    def set_additional_attributes(self) -> None:
        """Accept only falcon's own library: others of that file name lack `check_symbols`."""
        core = sys.modules.get("falcon._cpu._core")
        if core is not None and realpath(core.__file__ or "") == realpath(self.filepath):
            self.dynlib = self

    def get_num_threads(self) -> int:
        """Return the limit in force."""
        return _limit.of_thread or _limit_of_process or usable_cpus()

    def set_num_threads(self, num_threads: int) -> None:
        """Limit falcon's threads; a limit of all CPUs or more removes the limit."""
        global _limit_of_process
        limit = None if num_threads >= usable_cpus() else max(1, int(num_threads))
        if threading.current_thread() is threading.main_thread():
            _limit_of_process = limit
        else:
            _limit.of_thread = None if limit == _limit_of_process else limit

    def get_version(self) -> str:
        """Return falcon's version."""
        return __version__


register(FalconController)
