"""Limit NumPy's BLAS to the threads that a call may use.

A BLAS has one number of threads for the whole process, but concurrent calls may want different
numbers: while any of them runs, the least is set, and the last one restores the former number.
(`threadpoolctl.threadpool_limits` takes 6 microseconds, and if several threads use it, only the
first sets OpenBLAS's number; calling OpenBLAS directly takes 0.1.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from threadpoolctl import ThreadpoolController

from falcon._tools.locks import ForkLock


class Blas(NamedTuple):
    """Functions that get and set the number of threads of NumPy's BLAS, and its description."""

    get: Callable[[], int]
    set: Callable[[int], Any]
    about: dict[str, Any]


@cache
def numpy_blas() -> Blas | None:
    """Find NumPy's BLAS among the loaded libraries; None for one that threadpoolctl cannot set."""
    libraries = [
        x
        for x in ThreadpoolController().lib_controllers
        if x.user_api == "blas" and x.internal_api != "falcon"
    ]
    if not libraries:
        return None
    # Other packages (SciPy, for example) may have loaded a BLAS of their own.
    library = next((x for x in libraries if "numpy" in x.filepath.lower()), libraries[0])
    about = library.info()
    if about.get("threading_layer") == "pthreads":
        for name in library.check_symbols:
            if hasattr(library.dynlib, name):
                setter = name.replace("_get_", "_set_")
                return Blas(library.dynlib[name], library.dynlib[setter], about)
    return Blas(library.get_num_threads, library.set_num_threads, about)


_lock = ForkLock()
_wanted: list[int] = []  # limits of the calls that are running now
_usual = 0  # threads of the BLAS without these limits


def exceeds(threads: int) -> bool:
    """Whether NumPy's BLAS would use more threads without a limit."""
    blas = numpy_blas()
    return blas is not None and (_usual if _wanted else blas.get()) > threads


class limited:  # noqa: N801 - used as a function
    """Limit NumPy's BLAS to `threads` inside a ``with`` block; a lower number is kept."""

    __slots__ = ("_applied", "_threads")

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._applied = False

    def __enter__(self) -> None:
        global _usual
        blas = numpy_blas()
        if blas is None or not (_wanted or blas.get() > self._threads):
            return
        with _lock.lock:
            if not _wanted:
                _usual = blas.get()
            _wanted.append(self._threads)
            self._applied = True
            blas.set(min(_usual, *_wanted))

    def __exit__(self, *_: object) -> None:
        if not self._applied:
            return
        blas = numpy_blas()
        assert blas is not None  # it was set
        with _lock.lock:
            if self._threads in _wanted:  # else this process was forked inside the block
                _wanted.remove(self._threads)
                blas.set(min([_usual, *_wanted]))


def _forget() -> None:
    """Drop all limits in a forked child: calls of other threads do not continue there."""
    if _wanted:
        _wanted.clear()
        blas = numpy_blas()
        if blas is not None:
            blas.set(_usual)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
