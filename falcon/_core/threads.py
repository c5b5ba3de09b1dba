"""Limits of the number of threads: the CPUs at hand, and what threadpoolctl was told.

falcon is known to threadpoolctl as a library of its own, so that ``threadpool_limits(1)`` holds
for it as for NumPy's BLAS.
"""

from __future__ import annotations

import logging
import sys
import threading
from os.path import realpath

from threadpoolctl import LibController, register

from falcon._version import __version__

from .cpus import usable_cpus

_log = logging.getLogger("falcon")

# Even where more threads than CPUs are allowed.
_LARGEST = 1024
_reported: set[int] = set()  # what was asked for in vain, and has been logged


class _Limit(threading.local):
    own: int | None = None


# A limit set in the main thread holds for the whole process, one set in another thread for that
# thread alone: two threads that set and restore one limit of the process would leave it changed.
_limit = _Limit()
_limit_of_process: int | None = None


def limit_here() -> int:
    """CPUs that a call may use in this thread now; where it changes, plans are others."""
    cpus, limit = usable_cpus(), _limit.own or _limit_of_process
    return cpus if limit is None or limit > cpus else limit


def within_limits(requested: int | None, usual: int = 0, *, oversubscribed: bool = False) -> int:
    """Return how many threads a call uses that asks for so many; None: `usual`, or all CPUs."""
    most = limit_here()
    if oversubscribed:
        most = _limit.own or _limit_of_process or _LARGEST
    if requested is None:
        return min(usual or usable_cpus(), most)
    if requested > most and requested not in _reported:
        _reported.add(requested)
        _log.warning("falcon: %d threads are asked for; %d are used at most", requested, most)
    return min(requested, most)


class FalconController(LibController):
    """What threadpoolctl asks of a library: the limit of falcon's threads."""

    user_api = "blas"
    internal_api = "falcon"
    filename_prefixes = ("_core.",)
    check_symbols = ("get_num_threads",)

    def set_additional_attributes(self) -> None:
        """Answer for falcon's own library: others of that file name lack `check_symbols`."""
        core = sys.modules.get("falcon._cpu._core")
        if core is not None and realpath(core.__file__ or "") == realpath(self.filepath):
            self.dynlib = self

    def get_num_threads(self) -> int:
        """Return the limit in force."""
        return _limit.own or _limit_of_process or usable_cpus()

    def set_num_threads(self, num_threads: int) -> None:
        """Limit falcon's threads; as many as there are CPUs: no limit."""
        global _limit_of_process
        limit = None if num_threads >= usable_cpus() else max(1, int(num_threads))
        if threading.current_thread() is threading.main_thread():
            _limit_of_process = limit
        else:
            _limit.own = None if limit == _limit_of_process else limit

    def get_version(self) -> str:
        """Return falcon's version."""
        return __version__


register(FalconController)
